"""The platform on one machine: starts, watches, restarts and stops its services.

* `cli`: `narthex up` and related commands; `operator`: the process that keeps services running.
* `local_services`: the plan of services; `install`: directories, configuration and credentials.
* `servers`: PostgreSQL and Kafka; `processes`: starting and finding processes.
* `machine`: files, ports, Java and jars.

Start with `operator.stack`, then `local_services.service_plan`.
"""
