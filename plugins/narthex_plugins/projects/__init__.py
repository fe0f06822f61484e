"""The files of projects that Airflow's form commits: `git_repositories`, `project_files`."""
