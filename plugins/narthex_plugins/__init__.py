"""Airflow's side of the platform: tasks, triggers and the console tab."""
