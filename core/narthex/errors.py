"""All errors that Narthex raises; each has a code, and its docstring is its page.

NarthexError
├── DefinitionError                a definition is invalid
│   ├── NameNotAllowed             NX101   ├── DurationInvalid            NX102
│   ├── TypeNotSupported           NX103   ├── RestrictionInvalid         NX104
│   ├── StructInvalid              NX105   ├── MetaInvalid                NX106
│   ├── ArgumentInvalid            NX107   ├── EnvInvalid                 NX108
│   ├── TimestampUnclear           NX110   ├── KeyNotAllowed              NX111
│   ├── IndexInvalid               NX112   ├── FieldInvalid               NX113
│   ├── HistoryInvalid             NX114   ├── ExpectationInvalid         NX120
│   ├── PipelineInvalid            NX201   ├── ColumnNotFound             NX202
│   ├── ColumnExists               NX203   ├── ColumnRoleWrong            NX204
│   ├── OperatorInvalid            NX205   ├── JoinInvalid                NX206
│   ├── SchemaDiffers              NX207   ├── OperatorAfterTerminal      NX208
│   ├── AggregateInvalid           NX301   ├── WindowInvalid              NX302
│   ├── ExpressionTypeWrong        NX401   ├── ExpressionInvalid          NX402
│   ├── SourceInvalid              NX501   ├── PreprocInvalid             NX502
│   ├── CredentialInline           NX503   ├── ConnectorInvalid           NX504
│   ├── SinkInvalid                NX505   ├── PlaceForbidden             NX506
│   ├── NotGranted                 NX507   ├── EgressDenied               NX508
│   ├── SecretNotGranted           NX509
│   ├── FeatureInvalid             NX601   ├── ExtractorInvalid           NX602
│   ├── FeatureExtractedTwice      NX603   ├── FeatureWithoutExtractor    NX604
│   ├── CodeNotFound               NX701   ├── CodeForbidden              NX702
│   ├── CodeNotCarried             NX703   ├── CodeDisagrees              NX704
│   ├── DataFileInvalid            NX705   ├── RequirementsInvalid        NX706
│   ├── EntityMissing              NX801   ├── EntityTwice                NX802
│   ├── GraphCycle                 NX803   ├── OwnerMissing               NX804
│   ├── SourceAndPipeline          NX805   ├── CdcMismatch                NX806
│   ├── VersionNotRaised           NX807   ├── EnvAmbiguous               NX808
│   ├── LookupImpossible           NX809   ├── RecordNotUnderstood        NX810
│   ├── NotTransmitted             NX811   └── NotYetSupported            NX901
├── ClientError                    what a client asked was not done
│   ├── Unreachable                NX951   ├── Refused                    NX952
│   ├── CommitFailed               NX953   ├── FileNotLoaded              NX954
│   ├── ArgumentsUnfit             NX955   ├── AnswerNotUnderstood        NX956
│   ├── FennelInstalled            NX957   └── RowsNotContained           NX958
├── UserCodeError                  NX971   code of an author failed while it ran
├── SecretMissing                  NX972   a secret that code asks for is not there
├── PolicyInvalid                  NX973   the installation's policy file has mistakes
├── ConnectionDenied               NX974   a job would connect where the policy does not allow it
├── SecretWithheld                 NX975   no rule lets a job send a secret to a host
├── SandboxUnavailable             NX976   no worker could be started for code of an author
└── HistoryExpired                 NX977   an index no longer has the rows that a lookup needs
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

from typing_extensions import override

from narthex._base.origin import NOWHERE, Origin


class NarthexError(Exception):
    """An error with a code, a place in the author's files and one remedy.

    Attributes:
        code: Stable; `docs/errors.md` has a page for each.
        message: The mistake: the actual value, then the expected one; lower case, no full stop.
        origin: The author's file and line.
        hint: One remedy; may be empty.
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
        """Add the place and the subject of the error if they are missing; return the error."""
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
    """A definition is invalid; nothing was changed.

    All mistakes are reported together, each with its file and line.
    """

    code = "NX100"


class NameNotAllowed(DefinitionError):
    """A name is reserved, empty, or has a character that names cannot have.

    Names become columns, topics' labels and paths such as `Orders.amount`; a dot or a reserved
    word in a name would make such a path ambiguous. Instead: choose another name.
    """

    code = "NX101"


class DurationInvalid(DefinitionError):
    """A duration cannot be read.

    Durations are text: numbers with y (365 days), w, d, h, m or s, such as `1d` or `1h 30m`.
    Months have no fixed length. Instead: `30d`.
    """

    code = "NX102"


class TypeNotSupported(DefinitionError):
    """An annotation is not a type that a column can have.

    Columns are `int`, `float`, `bool`, `str`, `bytes`, `datetime`, `date`, `Decimal[n]`,
    `List[T]`, `Dict[str, T]`, `Optional[T]`, `Embedding[n]`, `Window`, a `@struct` class, or one
    of `between`, `oneof`, `regex`. Another type has no exact form in a log. Instead: the nearest of
    these.
    """

    code = "NX103"


class RestrictionInvalid(DefinitionError):
    """The bounds, options or pattern of `between`, `oneof` or `regex` do not fit their type.

    A restriction that no value meets, or an invalid pattern, would send every row to quarantine.
    Instead: give bounds in ascending order and options of the column's type.
    """

    code = "NX104"


class StructInvalid(DefinitionError):
    """A `@struct` class has something besides typed members: a method, a default, a meta.

    A struct is part of a column's type and holds data only.
    Instead: give its members types, and compute in a pipeline or an extractor.
    """

    code = "NX105"


class MetaInvalid(DefinitionError):
    """An entity's metadata is invalid, such as an owner that is not an e-mail address.

    Owners are notified when something breaks, so an address must be one. Instead: set `owner` to an
    e-mail address, tags and descriptions as text.
    """

    code = "NX106"


class ArgumentInvalid(DefinitionError):
    """A decorator or a declaration was called with an argument that it does not take.

    Ignoring a misspelt argument would change the meaning of the definition.
    Instead: use the arguments that the message lists.
    """

    code = "NX107"


class EnvInvalid(DefinitionError):
    """An env selector is empty, has a space, or mixes names with negated names.

    A selector is a name (`prod`), a list of names, or a list of negated names (`~dev`).
    A mixture is ambiguous. Instead: list either the selected or the excluded envs.
    """

    code = "NX108"


class TimestampUnclear(DefinitionError):
    """A dataset has no event-time field, or more than one candidate.

    Every dataset has exactly one `datetime` field for the instant of the event; all windows use
    it. Instead: mark one field with `field(timestamp=True)`.
    """

    code = "NX110"


class KeyNotAllowed(DefinitionError):
    """A key field is optional, is the timestamp, or has a type that cannot be compared exactly.

    Keys are compared byte by byte: nulls and floats do not compare exactly, and the timestamp is
    the version of a row. Instead: drop rows without a key first; key by `int`, `str`
    or `Decimal[n]` instead of `float`.
    """

    code = "NX111"


class IndexInvalid(DefinitionError):
    """An index is declared on a keyless dataset, twice, or with contradicting options.

    Lookups go by key, and `index=True` is online and offline already. Instead: give the
    dataset a key, and set `index=True`, `online=True` or `offline=True` once.
    """

    code = "NX112"


class FieldInvalid(DefinitionError):
    """The options of a field contradict each other, such as an erase key that is not a key.

    Both options cannot apply. Instead: remove one of them; fields have no default, and an erase
    key is one of the keys.
    """

    code = "NX113"


class HistoryInvalid(DefinitionError):
    """The `history` of a dataset has no effect, or is shorter than a window of its aggregates.

    A lookup sees no row that is older than the history. So without an index the option would do
    nothing, and a shorter history would cut windows. Instead: declare an index, or change the
    history to the one that the hint names.
    """

    code = "NX114"


class ExpectationInvalid(DefinitionError):
    """The expectations of a dataset are not a list of `expect_…` calls on its columns.

    Expectations are compiled to a suite that audits rows. Instead:
    return a list of the `expect_…` calls of `narthex.lib`.
    """

    code = "NX120"


class PipelineInvalid(DefinitionError):
    """A pipeline has no inputs, does not begin with `cls`, or returns no step.

    A pipeline is called once, with placeholders for its inputs, and what it returns is the
    dataset. Instead: decorate with `@inputs(…)`, take `cls` and one parameter for each, return
    the last step.
    """

    code = "NX201"


class ColumnNotFound(DefinitionError):
    """A step names a column that its input does not have.

    The column was misspelt, dropped, renamed or never joined. Instead: use a column that the
    message lists.
    """

    code = "NX202"


class ColumnExists(DefinitionError):
    """A step would give two columns the same name.

    One of the two would be lost. Instead: rename or drop one of them first.
    """

    code = "NX203"


class ColumnRoleWrong(DefinitionError):
    """A step changes or removes a key or the timestamp.

    Keys and the event time identify a row; another key is another row. Instead: change
    values only, and use `groupby` for another key.
    """

    code = "NX204"


class OperatorInvalid(DefinitionError):
    """A step of a pipeline was called with unsupported arguments.

    An example is `dropnull` of a column that has no null.
    Instead: use a form that the message lists.
    """

    code = "NX205"


class JoinInvalid(DefinitionError):
    """A join is not on the right dataset's keys, or its bounds are invalid.

    A join looks rows of the right side up by its key as of the left row's instant; without the
    whole key it would find many rows, or none. Instead: name each key of the right dataset
    once, with columns of the same types, and give `within` no negative bound.
    """

    code = "NX206"


class SchemaDiffers(DefinitionError):
    """The output of a pipeline differs from the schema of its dataset.

    Readers rely on what the dataset declares. Instead: change the declaration, or add the step
    (`select`, `rename`, `assign`, `dropnull`) that makes them equal.
    """

    code = "NX207"


class OperatorAfterTerminal(DefinitionError):
    """A step follows an aggregate over continuous windows, or reads a dataset that ends in one.

    Such an aggregate changes at every instant, as a sum that decays does, so it has no log of rows
    that a step could read. Instead: make the step before the aggregate, or use a discrete window.
    """

    code = "NX208"


class AggregateInvalid(DefinitionError):
    """An aggregate does not support the type of its column, or lacks a parameter.

    The result would have no value for some rows, or none at all. Instead: use a column of a
    type that the message lists, and give `of=`, `limit=` or `default=` where required.
    """

    code = "NX301"


class WindowInvalid(DefinitionError):
    """A window's length, stride or lookback is invalid, or no window may be used there.

    One of no length has no rows, a stride above the length leaves rows out, and windows of
    different kinds have no common instant at which a row changes. Instead: a length above zero;
    one kind of window and one lookback for all aggregates of a dataset; sessions in `groupby` and
    `dedup` only.
    """

    code = "NX302"


class ExpressionTypeWrong(DefinitionError):
    """An expression has operands or a result of a wrong type.

    Types are checked before anything runs, so that no row fails for one later. Instead: fill
    nulls with `fillnull`, convert one operand, or change the column's declared type.
    """

    code = "NX401"


class ExpressionInvalid(DefinitionError):
    """An expression is incomplete, or calls a function with an invalid argument.

    No engine can evaluate it. Instead: end a `when` with `otherwise`, and use the
    arguments that the message lists.
    """

    code = "NX402"


class SourceInvalid(DefinitionError):
    """The parameters of a source contradict each other or the dataset.

    The source would skip rows or never end. Instead: remove one of the two parameters that the
    message names.
    """

    code = "NX501"


class PreprocInvalid(DefinitionError):
    """A preproc entry or a `where` does not fit the dataset's fields.

    A field without a value would send every row to quarantine. Instead: name fields of the
    dataset, and give a constant of the field's type, `ref("column")` or `eval(…)`.
    """

    code = "NX502"


class CredentialInline(DefinitionError):
    """A definition contains a credential.

    Definitions are sent, stored and shown; a secret in a definition is public. Instead: store it
    with `narthex secret set` and refer to it by name, `password=Secret("orders-kafka")`.
    """

    code = "NX503"


class ConnectorInvalid(DefinitionError):
    """A connector lacks a part, such as an endpoint, or has one that it cannot use.

    The platform cannot read rows from it. Instead: name the endpoint, topic or path, such as
    `webhook.endpoint("orders")`.
    """

    code = "NX504"


class SinkInvalid(DefinitionError):
    """A sink's target and its parameters do not go together, or its dataset has a source.

    Each target accepts one form of rows, and the rows of a source already exist elsewhere.
    Instead: use the options that the message lists; put the sink on the dataset of a pipeline.
    """

    code = "NX505"


class PlaceForbidden(DefinitionError):
    """A source or a sink names a path or topic that no policy can grant.

    A path leaves the files root or its bucket, a topic is reserved for the platform or its
    broker, or Kafka clients read the name as a pattern. Instead: a path relative to the files
    root or `s3://bucket/…`, and the whole name of a topic of your own.
    """

    code = "NX506"


class NotGranted(DefinitionError):
    """The installation's policy does not grant a path, topic or endpoint to the branch.

    Branches read and write what the operator's policy file grants them; without a rule they read
    files below the files root and topics, and write nothing. Instead: ask the operator for the rule
    that the hint shows, or name a place that the branch has.
    """

    code = "NX507"


class EgressDenied(DefinitionError):
    """A connector names a host to which the policy denies connections.

    Loopback, link-local and private addresses, and the metadata service of a cloud, belong to the
    platform and not to authors. A Kafka cluster is allowed only by name, because its brokers tell
    a client where to connect next. Instead: name a public host in its usual spelling, or ask the
    operator to list the host under `[egress] allow` in the policy file.
    """

    code = "NX508"


class SecretNotGranted(DefinitionError):
    """No rule of the policy lets this branch send a secret to a host, or read it in code.

    A secret is granted to branches and bound to hosts: otherwise an author would read it by naming
    a server of his own. Instead: ask the operator for the rule in the hint, or name a secret that
    is granted to this branch.
    """

    code = "NX509"


class FeatureInvalid(DefinitionError):
    """A feature's type or default does not fit the field or feature that it refers to.

    A lookup finds its row by features named as the dataset's keys, and returns null if no row
    exists. Instead: declare the keys as features, and make the type optional or give a
    default.
    """

    code = "NX601"


class ExtractorInvalid(DefinitionError):
    """An extractor's inputs, outputs or signature do not fit its featureset.

    Columns are passed by position and come back by name, so each must be known. Instead: one
    parameter after `cls` and `ts` for each of `@inputs`, one column for each of `@outputs`.
    """

    code = "NX602"


class FeatureExtractedTwice(DefinitionError):
    """Two extractors of one env compute the same feature.

    The served value would be arbitrary. Instead: let one of them compute another feature, or set
    another env on it.
    """

    code = "NX603"


class FeatureWithoutExtractor(DefinitionError):
    """A requested feature is neither an input nor computed by an extractor.

    The query cannot be answered without it. Instead: pass it as an input of the query, or write
    its lookup, expression or extractor.
    """

    code = "NX604"


class CodeNotFound(DefinitionError):
    """The source text of a function could not be found.

    User code travels as text. Functions made in an interactive session or by `exec` have none.
    Instead: write the definition in a file.
    """

    code = "NX701"


class CodeForbidden(DefinitionError):
    """User code is not deterministic, or uses files, sockets or processes.

    Rows are processed again after a failure, by a backfill and by `narthex prove`; code that
    reads the clock, draws at random, opens files or sockets would make a replayed row another
    row. Instead: pass the value as a column.
    """

    code = "NX702"


class CodeNotCarried(DefinitionError):
    """User code refers to a global that cannot be sent as source text.

    Literals, functions, classes and imports are sent. A value that a call built, or that code
    changes, is not. Instead: make it a literal, or pass it as a column.
    """

    code = "NX703"


class CodeDisagrees(DefinitionError):
    """Received code does not define its function, or its data files or packages are others.

    It was changed on the way, or client and server have different versions. Instead: commit again,
    with the server's version of the client.
    """

    code = "NX704"


class DataFileInvalid(DefinitionError):
    """A data file of a project cannot be sent with the code that uses it.

    `data_file` reads a regular file inside the project, and the data files of a commit have at most
    8 MiB, as they are part of it. A path that leaves the project, also through a link, is refused.
    Instead: copy the file into the project, or load its rows into a dataset.
    """

    code = "NX705"


class RequirementsInvalid(DefinitionError):
    """The lock of a project has a line that the platform cannot install, or installed otherwise.

    `requirements` in `narthex.toml` names a lock with an exact version and hashes for each package,
    as `uv pip compile --generate-hashes` writes it. A package that the platform itself has must be
    locked at the platform's version, and unit tests need the locked versions installed. Instead:
    compile the lock again, and install it.
    """

    code = "NX706"


class EntityMissing(DefinitionError):
    """A dataset or featureset that another one needs is not in the commit.

    A commit must contain every definition that it refers to. Instead: pass it to `commit` too, or
    commit with `incremental=True` on top of a branch that has it.
    """

    code = "NX801"


class EntityTwice(DefinitionError):
    """Two entities of one commit have the same name.

    Readers refer to entities by name. Instead: rename one of the two.
    """

    code = "NX802"


class GraphCycle(DefinitionError):
    """Datasets or features depend on each other in a cycle.

    No order of computation exists. Instead: break the cycle, for instance with a dataset that
    both sides read.
    """

    code = "NX803"


class OwnerMissing(DefinitionError):
    """A dataset or featureset has no owner.

    The owner is notified when it breaks. Instead: `@meta(owner=…)`, or `__owner__` in the file.
    """

    code = "NX804"


class SourceAndPipeline(DefinitionError):
    """A dataset has both sources and pipelines.

    Their rows have different identities. Instead: give the source a dataset of its own, and read
    it in the pipeline.
    """

    code = "NX805"


class CdcMismatch(DefinitionError):
    """A source appends to a keyed dataset, or upserts into a keyless one.

    A keyed dataset retains the last row of a key, a keyless one all rows; `cdc` declares which
    of the two a source delivers. Instead: set `cdc="upsert"` for keyed datasets, and
    `cdc="append"` for keyless ones.
    """

    code = "NX806"


class VersionNotRaised(DefinitionError):
    """A dataset, pipeline or extractor changed but its version did not.

    Readers would get values of another definition under the old name. Instead: raise `version=`;
    the old one serves until the new one is filled.
    """

    code = "NX807"


class EnvAmbiguous(DefinitionError):
    """More than one pipeline of a dataset is selected for an env.

    A dataset is filled by one pipeline. Instead: set an `env=` on each, and commit with one of
    them.
    """

    code = "NX808"


class LookupImpossible(DefinitionError):
    """A lookup needs an index that the dataset does not have.

    Without an index, a lookup would read the whole log. Instead: `@dataset(index=True)`, or
    `online=True` or `offline=True` for one kind.
    """

    code = "NX809"


class RecordNotUnderstood(DefinitionError):
    """A commit has a part that this version does not support; client and server differ.

    Executing only a part of a definition would change its meaning. Instead: bring client
    and server to the same version.
    """

    code = "NX810"


class NotTransmitted(DefinitionError):
    """Fennel's client does not send this part of a definition.

    The part is in the author's file, but the client leaves it out of the commit; a commit without
    it would mean something else. Instead: write it in another way, or commit with
    `narthex.client`, which sends all of a definition.
    """

    code = "NX811"


class NotYetSupported(DefinitionError):
    """A part of the language that the platform does not implement yet.

    The server refuses a commit that needs it, and creates nothing; the in-process client of unit
    tests executes it. `docs/guide/not-supported.md` has the list, with reasons. Instead: see the
    hint, where there is a close alternative that is implemented.
    """

    code = "NX901"


class ClientError(NarthexError):
    """A client's request failed.

    The message names the side at fault: the request or the server.
    """

    code = "NX950"


class Unreachable(ClientError):
    """The server could not be reached, or did not answer in time.

    The server may or may not have received the request. Instead: see `narthex status` and
    the address, then try again.
    """

    code = "NX951"


class Refused(ClientError):
    """The server refused a request.

    The server changed nothing. Instead: correct the request as the server's message describes.

    Attributes:
        status_code: The HTTP status that it answered with.
        detail: More about the refusal, for programs; None without more.
    """

    code = "NX952"

    def __init__(
        self,
        message: str,
        *,
        status_code: int,
        origin: Origin = NOWHERE,
        hint: str = "",
        detail: object = None,
    ) -> None:
        super().__init__(message, origin=origin, hint=hint)
        self.status_code = status_code
        self.detail = detail

    @property
    def is_users(self) -> bool:
        """Whether the request was at fault, not the server."""
        return 400 <= self.status_code < 500  # noqa: PLR2004 (the statuses of a client's mistake)


class CommitFailed(ClientError):
    """A commit was accepted but failed; readers of the branch still read the previous commit.

    The platform destroys the assets that it created. Instead: see the error
    of the failed step in `narthex commits ID` or in Airflow, and commit again.
    """

    code = "NX953"


class FileNotLoaded(ClientError):
    """A definition file does not exist, or raised while it was read.

    The command runs the file to collect its definitions. Instead: correct the path, or the line
    that the message names.
    """

    code = "NX954"


class ArgumentsUnfit(ClientError):
    """The arguments of a call do not fit each other, such as a missing input column.

    The client sends no request. Instead: add the argument or column that the message names.
    """

    code = "NX955"


class AnswerNotUnderstood(ClientError):
    """The client cannot read the server's response.

    Client and server differ in version, or another server answered. Instead: bring client and
    server to the same version; check that the address is a Narthex server's.
    """

    code = "NX956"


class FennelInstalled(ClientError):
    """Code imports `fennel` to run on Narthex, but a package of that name is installed.

    It would be unclear which of the two runs. Instead: uninstall it, or pass `--shadow-fennel`.
    """

    code = "NX957"


class RowsNotContained(ClientError):
    """Rows were accepted, but they had not reached the indexes when a wait for them ended.

    A job that reads them is behind, or does not run. Instead: see `narthex status` and the page of
    the job in the console, and wait again; the rows need not be sent again.
    """

    code = "NX958"


class UserCodeError(NarthexError):
    """Author code failed: it raised, took too long, or returned a value that its type refuses.

    The message contains its error, the place its line. A query that runs an extractor fails. In a
    pipeline, the rows on which code fails go to the dataset's quarantine; other rows go on.
    Instead: correct the line that the message names, raise the version, commit.

    Attributes:
        is_worker_lost: Whether the code's process died, was killed, or exceeded its time.
    """

    code = "NX971"

    def __init__(
        self,
        message: str,
        *,
        origin: Origin = NOWHERE,
        hint: str = "",
        is_worker_lost: bool = False,
    ) -> None:
        super().__init__(message, origin=origin, hint=hint)
        self.is_worker_lost = is_worker_lost


class SecretMissing(NarthexError):
    """A secret that code reads by name does not exist, or no secret provider is configured.

    Code must not continue without the value of a secret. Instead: add the secret, and read it
    in a function of a pipeline or of an extractor only.
    """

    code = "NX972"


class PolicyInvalid(NarthexError):
    """The policy file of the installation cannot be read, or has mistakes.

    A misread rule could grant access. Therefore the server accepts no commit, and no job reads or
    writes. Instead: the operator corrects the file at the lines that the message lists.

    Attributes:
        mistakes: Each of them, in the order of the file's tables.
    """

    code = "NX973"

    def __init__(self, mistakes: Sequence[str], *, origin: Origin = NOWHERE) -> None:
        listed = "; ".join(mistakes)
        super().__init__(
            f"the policy file has mistakes: {listed}",
            origin=origin,
            hint="correct the policy file; until then, commits and jobs are refused",
        )
        self.mistakes = tuple(mistakes)


class ConnectionDenied(NarthexError):
    """A job would connect to an address that the policy of the installation does not allow.

    The host of a connector resolved to a loopback, link-local or private address, or the policy
    changed since the commit. No connection was opened. Instead: the operator lists the host under
    `[egress] allow` in the policy file, or the author names another host.
    """

    code = "NX974"


class SecretWithheld(NarthexError):
    """A job needs a secret for a host, and no rule of the policy allows that.

    The host came from a secret or from a cluster, or the policy changed since the commit. The
    secret was not sent. Instead: the operator adds the host to the secret's rule in the policy
    file.
    """

    code = "NX975"


class SandboxUnavailable(NarthexError):
    """No worker could be started to run author code; the message contains the reason.

    No row is at fault, so none is rejected: a job that needs the worker waits and tries again, a
    query fails. Instead: the operator grants what the message names, such as a layer of the
    sandbox, memory or processes.
    """

    code = "NX976"


class HistoryExpired(NarthexError):
    """A lookup is as of an instant so long ago that the index has deleted rows that it needs.

    The index of a dataset with a `history` answers lookups as of the last `history` before its
    watermark. The history tables still have all rows. Instead: use `query_offline`, or a longer
    `history` with a higher version.
    """

    code = "NX977"


class DefinitionErrors(ExceptionGroup[DefinitionError]):
    """All mistakes of one definition, one file or one commit, in source order."""

    @override
    def __str__(self) -> str:
        return render_report(self.exceptions_flat())

    def exceptions_flat(self) -> tuple[DefinitionError, ...]:
        """Return all errors, nested groups included, in source order."""
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
    """Raise all errors together; do nothing if there are none.

    Raises:
        DefinitionErrors: There is at least one error.
    """
    ordered = in_source_order(errors)
    if ordered:
        raise DefinitionErrors(render_report(ordered), ordered)


def render_report(errors: Sequence[NarthexError]) -> str:
    """Render many errors for a person: each in full, then their number."""
    return "\n\n".join([*(error.render() for error in errors), *count_of_mistakes(errors)])


def count_of_mistakes(errors: Sequence[NarthexError]) -> tuple[str, ...]:
    """Return the last line of a report of several errors."""
    return (f"{len(errors)} mistakes",) if len(errors) > 1 else ()


def catalogue() -> dict[str, type[NarthexError]]:
    """All error classes by code."""
    found: dict[str, type[NarthexError]] = {}
    pending: list[type[NarthexError]] = [NarthexError]
    while pending:
        cls = pending.pop()
        found[cls.code] = cls
        pending += cls.__subclasses__()
    return dict(sorted(found.items()))
