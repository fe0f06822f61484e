"""The services of an installation: Airflow, the server and the supervisors.

`service_plan` decides which of them start on this machine; begin reading there.
"""
