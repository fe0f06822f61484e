"""Every error that Narthex raises, in one tree; each has a code, and its docstring is its page.

NarthexError
├── DefinitionError                what an author wrote cannot stand
│   ├── NameNotAllowed             NX101   ├── DurationInvalid            NX102
│   ├── TypeNotSupported           NX103   ├── RestrictionInvalid         NX104
│   ├── StructInvalid              NX105   ├── MetaInvalid                NX106
│   ├── ArgumentInvalid            NX107   ├── EnvInvalid                 NX108
│   ├── TimestampUnclear           NX110   ├── KeyNotAllowed              NX111
│   ├── IndexInvalid               NX112   ├── FieldInvalid               NX113
│   ├── ExpectationInvalid         NX120
│   ├── PipelineInvalid            NX201   ├── ColumnNotFound             NX202
│   ├── ColumnExists               NX203   ├── ColumnRoleWrong            NX204
│   ├── OperatorInvalid            NX205   ├── JoinInvalid                NX206
│   ├── SchemaDiffers              NX207   ├── OperatorAfterTerminal      NX208
│   ├── AggregateInvalid           NX301   ├── WindowInvalid              NX302
│   ├── ExpressionTypeWrong        NX401   ├── ExpressionInvalid          NX402
│   ├── SourceInvalid              NX501   ├── PreprocInvalid             NX502
│   ├── CredentialInline           NX503   ├── ConnectorInvalid           NX504
│   ├── FeatureInvalid             NX601   ├── ExtractorInvalid           NX602
│   ├── FeatureExtractedTwice      NX603   ├── FeatureWithoutExtractor    NX604
│   ├── CodeNotFound               NX701   ├── CodeForbidden              NX702
│   ├── CodeNotCarried             NX703   ├── CodeDisagrees              NX704
│   ├── EntityMissing              NX801   ├── EntityTwice                NX802
│   ├── GraphCycle                 NX803   ├── OwnerMissing               NX804
│   ├── SourceAndPipeline          NX805   ├── CdcMismatch                NX806
│   ├── VersionNotRaised           NX807   ├── EnvAmbiguous               NX808
│   ├── LookupImpossible           NX809   ├── RecordNotUnderstood        NX810
│   └── NotYetSupported            NX901
├── ClientError                    what a client asked was not done
│   ├── Unreachable                NX951   ├── Refused                    NX952
│   ├── CommitFailed               NX953   ├── FileNotLoaded              NX954
│   ├── ArgumentsUnfit             NX955   └── AnswerNotUnderstood        NX956
└── UserCodeError                  NX971   code of an author failed while it ran
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

from typing_extensions import override

from narthex.origin import NOWHERE, Origin


class NarthexError(Exception):
    """An error with a code, a place in the author's files and one thing to do.

    Attributes:
        code: Stable; `docs/errors.md` has a page for each.
        message: What is wrong, found before wanted; lower case, no full stop.
        origin: Where it was written.
        hint: One thing to do; may be empty.
    """

    code: ClassVar[str] = "NX000"

    def __init__(self, message: str, *, origin: Origin = NOWHERE, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.origin = origin
        self.hint = hint

    @override
    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """Render code, message, place and hint."""
        lines = [f"[{self.code}] {self.message}"]
        if self.origin != NOWHERE:
            lines.append(f"  --> {self.origin}")
        if self.hint:
            lines += ["", f"hint: {self.hint}"]
        return "\n".join(lines)

    def located(self, origin: Origin, *, subject: str = "") -> Self:
        """Say where it is, if that was unknown where it arose, and of what; give it back."""
        if self.origin == NOWHERE:
            self.origin = origin
        if subject:
            self.message = f"{subject}: {self.message}"
        return self

    def plain(self) -> dict[str, str | int]:
        """Render for machines: code, message, file, line, hint."""
        return {
            "code": self.code,
            "message": self.message,
            "file": self.origin.file,
            "line": self.origin.line,
            "hint": self.hint,
        }


class DefinitionError(NarthexError):
    """What an author wrote cannot stand; nothing was changed anywhere."""

    code = "NX100"


class NameNotAllowed(DefinitionError):
    """A name is reserved, empty, or has a character that names cannot have.

    Names become columns, topics' labels and paths such as `Orders.amount`; a dot or a reserved
    word in one would make them mean two things. Instead: choose another name.
    """

    code = "NX101"


class DurationInvalid(DefinitionError):
    """A duration cannot be read.

    Durations are text: numbers with y (365 days), w, d, h, m or s, such as `1d` or `1h 30m`.
    """

    code = "NX102"


class TypeNotSupported(DefinitionError):
    """An annotation is not a type that a column can have.

    Columns are `int`, `float`, `bool`, `str`, `bytes`, `datetime`, `date`, `Decimal[n]`,
    `List[T]`, `Dict[str, T]`, `Optional[T]`, `Embedding[n]`, `Window`, a `@struct` class, or one
    of `between`, `oneof`, `regex`.
    """

    code = "NX103"


class RestrictionInvalid(DefinitionError):
    """The bounds, options or pattern of `between`, `oneof` or `regex` do not fit their type."""

    code = "NX104"


class StructInvalid(DefinitionError):
    """A `@struct` class has something besides typed members: a method, a default, a meta."""

    code = "NX105"


class MetaInvalid(DefinitionError):
    """What is said of an entity cannot stand, such as an owner that is no e-mail address."""

    code = "NX106"


class ArgumentInvalid(DefinitionError):
    """A decorator or a declaration was called with an argument that it does not take."""

    code = "NX107"


class EnvInvalid(DefinitionError):
    """An env selector is empty, has a space, or mixes names with negated names.

    A selector is a name (`prod`), a list of names, or a list of negated names (`~dev`).
    """

    code = "NX108"


class TimestampUnclear(DefinitionError):
    """A dataset has no event-time field, or more than one candidate.

    Every dataset has exactly one `datetime` field that says when a row happened. Where there
    are several, mark one with `field(timestamp=True)`.
    """

    code = "NX110"


class KeyNotAllowed(DefinitionError):
    """A key field is optional, is the timestamp, or has a type that cannot be compared exactly."""

    code = "NX111"


class IndexInvalid(DefinitionError):
    """An index is asked of a keyless dataset, twice, or in a combination that means nothing."""

    code = "NX112"


class FieldInvalid(DefinitionError):
    """The options of a field contradict each other, such as an erase key that is no key."""

    code = "NX113"


class ExpectationInvalid(DefinitionError):
    """The expectations of a dataset are not a list of `expect_…` calls on its columns."""

    code = "NX120"


class PipelineInvalid(DefinitionError):
    """A pipeline has no inputs, does not begin with `cls`, or returns no step."""

    code = "NX201"


class ColumnNotFound(DefinitionError):
    """A step names a column that its input does not have."""

    code = "NX202"


class ColumnExists(DefinitionError):
    """A step would give two columns the same name."""

    code = "NX203"


class ColumnRoleWrong(DefinitionError):
    """A step changes or leaves out a key or the timestamp, which it may not."""

    code = "NX204"


class OperatorInvalid(DefinitionError):
    """A step of a pipeline was called in a form that it does not have."""

    code = "NX205"


class JoinInvalid(DefinitionError):
    """A join is not on the right dataset's keys, or its bounds mean nothing."""

    code = "NX206"


class SchemaDiffers(DefinitionError):
    """What a pipeline gives is not what its dataset declares."""

    code = "NX207"


class OperatorAfterTerminal(DefinitionError):
    """A step follows an aggregate over continuous windows, or reads a dataset that ends in one.

    Such an aggregate changes at every instant, so it has no log of rows that a step could read.
    Instead: make the step before the aggregate, or use a discrete window.
    """

    code = "NX208"


class AggregateInvalid(DefinitionError):
    """An aggregate is asked of a column whose type it cannot take, or lacks a parameter."""

    code = "NX301"


class WindowInvalid(DefinitionError):
    """A window has a length, a stride or a lookback that cannot be."""

    code = "NX302"


class ExpressionTypeWrong(DefinitionError):
    """An expression has operands, or a result, of a type that cannot stand there."""

    code = "NX401"


class ExpressionInvalid(DefinitionError):
    """An expression is not complete, or uses a function with an argument that it cannot have."""

    code = "NX402"


class SourceInvalid(DefinitionError):
    """The parameters of a source contradict each other or the dataset."""

    code = "NX501"


class PreprocInvalid(DefinitionError):
    """A preproc entry or a `where` does not fit the dataset's fields."""

    code = "NX502"


class CredentialInline(DefinitionError):
    """A credential stands in the definition.

    Definitions are sent, stored and shown; a secret in one is no secret. Instead: keep it where
    the platform finds its secrets and name it, `password=Secret("orders-kafka")`.
    """

    code = "NX503"


class ConnectorInvalid(DefinitionError):
    """A connector lacks a part, such as an endpoint, or has one that it cannot use."""

    code = "NX504"


class FeatureInvalid(DefinitionError):
    """A feature's reference, type or default does not fit what it refers to."""

    code = "NX601"


class ExtractorInvalid(DefinitionError):
    """An extractor's inputs, outputs or signature do not fit its featureset."""

    code = "NX602"


class FeatureExtractedTwice(DefinitionError):
    """Two extractors that are selected together give the same feature."""

    code = "NX603"


class FeatureWithoutExtractor(DefinitionError):
    """A feature that is asked for is neither given nor extracted."""

    code = "NX604"


class CodeNotFound(DefinitionError):
    """The source text of a function could not be found.

    User code travels as text. Functions made in an interactive session or by `exec` have none.
    Instead: write the definition in a file.
    """

    code = "NX701"


class CodeForbidden(DefinitionError):
    """User code calls something that gives another answer when it is asked again, or reaches out.

    Rows are worked on again after a failure, by a backfill and by `narthex prove`; code that
    reads the clock, draws at random, opens files or sockets would make a replayed row another
    row. Instead: take what it needs as a column.
    """

    code = "NX702"


class CodeNotCarried(DefinitionError):
    """User code reaches a global that cannot travel as text.

    Literals, functions, classes and imports travel. A value that was built by a call, or that
    is changed somewhere, does not. Instead: make it a literal, or pass it as a column.
    """

    code = "NX703"


class CodeDisagrees(DefinitionError):
    """What the client resolved of a function is not what the server resolves from its source."""

    code = "NX704"


class EntityMissing(DefinitionError):
    """A dataset or featureset that another one needs is not in the commit."""

    code = "NX801"


class EntityTwice(DefinitionError):
    """Two entities of one commit have the same name."""

    code = "NX802"


class GraphCycle(DefinitionError):
    """Datasets, or features, feed each other in a circle."""

    code = "NX803"


class OwnerMissing(DefinitionError):
    """A dataset or featureset has no owner, or a part of it cannot be resolved to one."""

    code = "NX804"


class SourceAndPipeline(DefinitionError):
    """A dataset has both sources and pipelines; it may be filled from one kind only."""

    code = "NX805"


class CdcMismatch(DefinitionError):
    """A source appends to a keyed dataset, or upserts into a keyless one."""

    code = "NX806"


class VersionNotRaised(DefinitionError):
    """A dataset, pipeline or extractor changed but its version did not."""

    code = "NX807"


class EnvAmbiguous(DefinitionError):
    """More than one pipeline of a dataset is selected for an env."""

    code = "NX808"


class LookupImpossible(DefinitionError):
    """A dataset is looked up that has no index of the kind that the lookup needs."""

    code = "NX809"


class RecordNotUnderstood(DefinitionError):
    """A commit has a part that this version does not know; client and server differ."""

    code = "NX810"


class NotYetSupported(DefinitionError):
    """A part of the language that exists but cannot be carried out yet."""

    code = "NX901"


class ClientError(NarthexError):
    """What a client asked was not done."""

    code = "NX950"


class Unreachable(ClientError):
    """The server could not be reached, or did not answer in time."""

    code = "NX951"


class Refused(ClientError):
    """The server refused a request.

    Attributes:
        status_code: The HTTP status that it answered with.
    """

    code = "NX952"

    def __init__(
        self, message: str, *, status_code: int, origin: Origin = NOWHERE, hint: str = ""
    ) -> None:
        super().__init__(message, origin=origin, hint=hint)
        self.status_code = status_code

    @property
    def is_users(self) -> bool:
        """Whether the request was at fault, not the server."""
        return 400 <= self.status_code < 500  # noqa: PLR2004 (the statuses of a client's mistake)


class CommitFailed(ClientError):
    """A commit was accepted but did not come to stand; its branch reads what it read before."""

    code = "NX953"


class FileNotLoaded(ClientError):
    """A definition file does not exist, or raised while it was read."""

    code = "NX954"


class ArgumentsUnfit(ClientError):
    """The arguments of a call do not fit each other, such as a missing input column."""

    code = "NX955"


class AnswerNotUnderstood(ClientError):
    """The server answered with something that this client cannot read."""

    code = "NX956"


class UserCodeError(NarthexError):
    """Code of an author failed while it ran; the message has its own error, the place is its."""

    code = "NX971"


class DefinitionErrors(ExceptionGroup[DefinitionError]):
    """All mistakes of one definition, one file or one commit, in source order."""

    @override
    def __str__(self) -> str:
        return render_report(self.exceptions_flat())

    def exceptions_flat(self) -> tuple[DefinitionError, ...]:
        """All errors, those of nested groups too, in source order."""
        found: list[DefinitionError] = []
        for error in self.exceptions:
            if isinstance(error, DefinitionErrors):
                found += error.exceptions_flat()
            elif isinstance(error, DefinitionError):
                found.append(error)
        return in_source_order(found)


def in_source_order(errors: Iterable[DefinitionError]) -> tuple[DefinitionError, ...]:
    """Sort by file and line; errors at the same place keep their order."""
    return tuple(sorted(errors, key=lambda error: error.origin))


def raise_all(errors: Iterable[DefinitionError]) -> None:
    """Raise what was found, all together; do nothing if nothing was found.

    Raises:
        DefinitionErrors: There is at least one error.
    """
    found = in_source_order(errors)
    if found:
        raise DefinitionErrors(render_report(found), found)


def render_report(errors: Sequence[NarthexError]) -> str:
    """Render many errors for a person: each in full, then how many."""
    parts = [error.render() for error in errors]
    if len(errors) > 1:
        parts.append(f"{len(errors)} mistakes")
    return "\n\n".join(parts)


def catalogue() -> dict[str, type[NarthexError]]:
    """All error classes by code."""
    found: dict[str, type[NarthexError]] = {}
    pending: list[type[NarthexError]] = [NarthexError]
    while pending:
        cls = pending.pop()
        found[cls.code] = cls
        pending += cls.__subclasses__()
    return dict(sorted(found.items()))
