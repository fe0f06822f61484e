"""Projects that nobody wrote: definitions, facts and orders of arrival, drawn by Hypothesis."""

from narthex_reference.generate.project import Project, instants_of
from narthex_reference.generate.projects import projects
from narthex_reference.generate.rendering import render_program, render_value

__all__ = ["Project", "instants_of", "projects", "render_program", "render_value"]
