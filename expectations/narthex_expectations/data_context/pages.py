"""The pages of the Data Docs: those of Great Expectations, without scripts and other sites.

Texts of definitions are hostile input, and the templates of Great Expectations escape only some of
them. So a renderer is given every character that HTML or a template could interpret as another one,
which means nothing to either, and a view writes the entity of each into the finished page.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from great_expectations.core import ExpectationSuite
from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationSuiteValidationResultSchema,
)
from great_expectations.data_context import FileDataContext
from great_expectations.render import (
    RenderedDocumentContent,
    RenderedSectionContent,
    RenderedStringTemplateContent,
    RenderedTableContent,
)
from great_expectations.render.renderer import (
    ExpectationSuitePageRenderer,
    ValidationResultsPageRenderer,
)
from great_expectations.render.view import DefaultJinjaIndexPageView, DefaultJinjaPageView
from jinja2 import ChoiceLoader, PackageLoader
from typing_extensions import override

from narthex._base import Json

_INTERPRETED: Final = "<>&\"'$"
_FIRST: Final = 0xE000
"""The first of the code points that Unicode leaves to private use."""

_GUARDS: Final = str.maketrans({char: chr(_FIRST + n) for n, char in enumerate(_INTERPRETED)})
_ENTITIES: Final = str.maketrans(
    {chr(_FIRST + n): f"&#{ord(char)};" for n, char in enumerate(_INTERPRETED)}
)


def guarded(parts: Mapping[str, Json]) -> dict[str, Json]:
    """Return a JSON object in whose names and texts nothing can be interpreted."""
    return {name.translate(_GUARDS): _guarded(one) for name, one in parts.items()}


def _guarded(value: Json) -> Json:
    match value:
        case str():
            return value.translate(_GUARDS)
        case list():
            return [_guarded(one) for one in value]
        case dict():
            return guarded(value)
        case _:
            return value


class SuitePage(ExpectationSuitePageRenderer):
    """The page of a suite, with its results that are kept, the newest first."""

    def __init__(self, data_context: FileDataContext) -> None:
        super().__init__()
        self._data_context = data_context

    @override
    def render(self, expectations: ExpectationSuite) -> RenderedDocumentContent:
        plain = guarded(_with_parameters(expectations.to_json_dict()))
        document = super().render(ExpectationSuite(**plain))
        document.sections.append(self._results_of(expectations.name))
        return document

    def _results_of(self, name: str) -> RenderedSectionContent:
        store = self._data_context.validation_results_store
        keys = sorted(
            store.store_backend.list_keys(prefix=(name,)), key=lambda key: key[-2], reverse=True
        )
        results = [(key, store.get(store.key_class.from_tuple(key))) for key in keys]
        rows = [
            [
                "met" if result.success else "broken",
                _link(_instant(result), "/".join(("..", "validations", *key)) + ".html"),
                str(key[-3]),
                str(result.statistics["unsuccessful_expectations"]),
            ]
            for key, result in results
        ]
        table = RenderedTableContent(
            header="Validation Results",
            header_row=["Status", "Run Time", "Run Name", "Broken Expectations"],
            table=rows,
            styling={
                "classes": ["col-12"],
                "body": {"classes": ["table", "table-sm"]},
            },
        )
        return RenderedSectionContent(section_name="Validation Results", content_blocks=[table])


class ResultPage(ValidationResultsPageRenderer):
    """The page of a validation result."""

    @override
    def render(
        self, validation_results: ExpectationSuiteValidationResult, suite_parameters: object = None
    ) -> RenderedDocumentContent:
        plain = guarded(validation_results.to_json_dict())
        return super().render(
            ExpectationSuiteValidationResultSchema().load(plain), suite_parameters
        )


class PageView(DefaultJinjaPageView):
    """The HTML of a page: our templates take the place of those that load scripts."""

    def __init__(
        self,
        custom_styles_directory: str | None = None,
        custom_views_directory: str | None = None,
    ) -> None:
        super().__init__(custom_styles_directory, custom_views_directory)
        own = PackageLoader("narthex_expectations.data_context")
        self.env.loader = ChoiceLoader([own, self.env.loader])

    @override
    def render(self, document: object, template: str | None = None, **rest: object) -> str:
        page: str = super().render(document, template, **rest)
        return page.translate(_ENTITIES)


class IndexView(PageView, DefaultJinjaIndexPageView):
    """The HTML of the index: the suites, and the newest results of all of them."""

    _template = "index_page.j2"


def _with_parameters(suite: Mapping[str, Json]) -> dict[str, Json]:
    """Return a suite whose sets have their members, and no name of a suite parameter."""
    parameters, expectations = suite.get("suite_parameters"), suite.get("expectations")
    known = parameters if isinstance(parameters, dict) else {}
    shown = [
        _with_members(one, known)
        for one in (expectations if isinstance(expectations, list) else [])
        if isinstance(one, dict)
    ]
    return {**suite, "expectations": [*shown], "suite_parameters": {}}


def _with_members(expectation: dict[str, Json], known: Mapping[str, Json]) -> dict[str, Json]:
    kwargs = expectation.get("kwargs")
    match kwargs:
        case {"value_set": {"$PARAMETER": str(name)}} if isinstance(kwargs, dict):
            return {**expectation, "kwargs": {**kwargs, "value_set": known.get(name)}}
        case _:
            return expectation


def _instant(result: ExpectationSuiteValidationResult) -> str:
    run_id = result.meta["run_id"]
    at = run_id["run_time"] if isinstance(run_id, dict) else run_id.run_time
    return str(at)[:19].replace("T", " ")


def _link(text: str, path: str) -> RenderedStringTemplateContent:
    return RenderedStringTemplateContent(
        string_template={
            "template": "$text",
            "params": {"text": text},
            "tag": "a",
            "styling": {"attributes": {"href": quote(path)}},
        }
    )
