"""Generated projects: definitions, facts and orders of arrival, drawn by Hypothesis."""

from narthex_reference.generate.enforced import breaking_cell
from narthex_reference.generate.project import Project, instants_of
from narthex_reference.generate.projects import projects
from narthex_reference.generate.rendering import render_program, render_value
from narthex_reference.generate.seeds import A_SEED, SEEDS_ALONE, each_of_seed, kinds

__all__ = [
    "A_SEED",
    "SEEDS_ALONE",
    "Project",
    "breaking_cell",
    "each_of_seed",
    "instants_of",
    "kinds",
    "projects",
    "render_program",
    "render_value",
]
