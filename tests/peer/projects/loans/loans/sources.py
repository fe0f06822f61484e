from fennel.connectors import Webhook

bank = Webhook(name="loans_bank")
web = Webhook(name="loans_web")
