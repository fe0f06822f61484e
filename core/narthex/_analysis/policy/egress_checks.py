"""The policy's denials of a commit: hosts that it may not reach, secrets that it may not send.

A commit is checked for its branch. A job checks again when it connects, because a name may resolve
to another address and the policy may have changed: see `require_grant` and
`narthex._connectors.egress.resolve`.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from narthex._analysis.fingerprints import source_id
from narthex._analysis.policy.policy import Policy, SecretRule, granted
from narthex._analysis.schemas.pipelines import all_steps
from narthex._base.origin import NOWHERE, Origin
from narthex._connectors.egress import (
    AddressInvalidError,
    Destination,
    EgressRules,
    is_granted,
)
from narthex._connectors.kinds import Outlet, credentials_of
from narthex._connectors.registry import ConnectorKindError, kind_of
from narthex._ir.code import UserCode
from narthex._ir.entities import (
    CodeExtractor,
    ComputedByCode,
    Connector,
    Credential,
    Dataset,
    Definitions,
    SecretRef,
    Source,
    WhereByCode,
)
from narthex._ir.operators import AssignCode, Filter, Transform
from narthex.errors import (
    ConnectorInvalid,
    DefinitionError,
    EgressDenied,
    PolicyInvalid,
    SecretNotGranted,
    SecretWithheld,
    in_source_order,
)
from narthex.secrets import READS_SECRETS

_GET: Final = "get"


def egress_errors(
    definitions: Definitions, policy: Policy, *, branch: str, endpoint_url: str = ""
) -> tuple[DefinitionError, ...]:
    """Return an error for each connector and function that the policy denies, in source order.

    Args:
        definitions: They passed `narthex._analysis.graph.check`.
        policy: The operator's policy.
        branch: The branch that they are committed to.
        endpoint_url: The address of the platform's object store; empty for Amazon's.

    Raises:
        PolicyInvalid: An entry of the policy cannot be read.
    """
    judge = _Judge(
        policy=policy, egress=egress_rules(policy), branch=branch, endpoint_url=endpoint_url
    )
    found: list[DefinitionError] = []
    for dataset in definitions.datasets:
        for source in dataset.sources:
            found += judge.connector(
                source.connector, f"the source `{source_id(source)}`", source.origin
            )
        for sink in dataset.sinks:
            found += judge.connector(sink.target, f"a sink of `{dataset.name}`", sink.origin)
    for what, code in _codes(definitions):
        found += judge.code(code, what)
    return in_source_order(found)


def connector_errors(
    connector: Connector, policy: Policy, *, branch: str, endpoint_url: str = "", what: str
) -> tuple[DefinitionError, ...]:
    """Return an error for each server or secret of a connector that the policy denies.

    Args:
        connector: The connector.
        policy: The operator's policy.
        branch: The branch whose definitions would have it.
        endpoint_url: The address of the platform's object store; empty for Amazon's.
        what: Its name in messages.

    Raises:
        PolicyInvalid: An entry of the policy cannot be read.
    """
    judge = _Judge(
        policy=policy, egress=egress_rules(policy), branch=branch, endpoint_url=endpoint_url
    )
    return tuple(judge.connector(connector, f"`{what}`", NOWHERE))


def egress_rules(policy: Policy) -> EgressRules:
    """Return the parsed allow list of a policy.

    Raises:
        PolicyInvalid: An entry cannot be read.
    """
    try:
        for rule in policy.secrets:
            is_granted(Destination(""), rule.hosts)
        return EgressRules.of(policy.egress.allow)
    except AddressInvalidError as error:
        raise PolicyInvalid((str(error),)) from None


def require_grant(policy: Policy, secret: str, targets: Sequence[Destination]) -> None:
    """Refuse to send a secret to hosts unless a rule grants each of them, for any branch.

    Raises:
        SecretWithheld: A host is not granted by any rule, or no host is known.
    """
    missing = _ungranted(policy.secret_rules(secret), targets)
    if missing or not targets:
        listed = ", ".join(f"`{target}`" for target in missing) or "an unknown host"
        raise SecretWithheld(
            f"no rule of the policy lets `{secret}` go to {listed}",
            hint=_rule_hint(secret, hosts=missing),
        )


@attrs.frozen(kw_only=True)
class _Judge:
    """Checks one commit against one policy."""

    policy: Policy
    egress: EgressRules
    branch: str
    endpoint_url: str

    def connector(
        self, connector: Connector, what: str, origin: Origin
    ) -> Iterator[DefinitionError]:
        """Return the denials of a connector."""
        try:
            opened = outlets(connector, endpoint_url=self.endpoint_url)
        except AddressInvalidError as error:
            yield ConnectorInvalid(
                f"{what}: {error}", origin=origin, hint="write the host in its canonical form"
            )
            return
        except ConnectorKindError as error:
            hint = "ask the operator to correct or remove the package of this connector"
            yield ConnectorInvalid(f"{what}: {error}", origin=origin, hint=hint)
            return
        for outlet in opened:
            yield from self._hosts(outlet, what, origin)
            yield from self._secrets(outlet, what, origin)

    def _hosts(self, outlet: Outlet, what: str, origin: Origin) -> Iterator[DefinitionError]:
        if outlet.is_fixed:
            return
        for target in outlet.targets:
            reason = self.egress.refuse_unresolved(target)
            if not reason and outlet.is_cluster and not self._is_named(outlet, target):
                reason = f"`{target}` is a cluster that the policy does not list"
            if reason:
                yield EgressDenied(
                    f"{what}, {outlet.what}: {reason}",
                    origin=origin,
                    hint=_allow_hint(target),
                )

    def _is_named(self, outlet: Outlet, target: Destination) -> bool:
        """Whether the allow list or the rule of its secret names a cluster."""
        names = secret_names(outlet.credentials)
        is_bound = any(not _ungranted(self._rules(name), [target]) for name in names)
        return is_bound or self.egress.names(target)

    def _secrets(self, outlet: Outlet, what: str, origin: Origin) -> Iterator[DefinitionError]:
        for name in secret_names(outlet.credentials):
            rules = self._rules(name)
            missing = _ungranted(rules, outlet.targets)
            if rules and not missing:
                continue
            where = ", ".join(f"`{target}`" for target in missing)
            yield SecretNotGranted(
                f"{what} sends the secret `{name}` to {where or 'a host'}, which no rule of the "
                f"policy grants to the branch `{self.branch}`",
                origin=origin,
                hint=_rule_hint(name, branch=self.branch, hosts=missing),
            )

    def _rules(self, name: str) -> tuple[SecretRule, ...]:
        rules = self.policy.secret_rules(name)
        return tuple(rule for rule in rules if granted((rule,), self.branch))

    def code(self, code: UserCode, what: str) -> Iterator[DefinitionError]:
        """Return the denials of the secrets that a function reads."""
        if READS_SECRETS not in code.source:
            return
        names = _names_read(code.source)
        for name in names or ("",):
            if name and any(rule.code for rule in self._rules(name)):
                continue
            said = f"the secret `{name}`" if name else "secrets whose names are not literals"
            yield SecretNotGranted(
                f"{what} reads {said}, which no rule of the policy grants to code of the branch "
                f"`{self.branch}`",
                origin=code.origin,
                hint=_rule_hint(name or "…", branch=self.branch, is_code=True),
            )


def outlets(connector: Connector, *, endpoint_url: str = "") -> tuple[Outlet, ...]:
    """Return the servers that a connector connects to.

    A secret of the connector that its kind sends to none of them counts as sent to an unknown host,
    so that a kind cannot use a secret without a rule of the policy.

    Raises:
        AddressInvalidError: A part of it is not an address.
        ConnectorKindError: It is not the record of a kind, or its kind declares no place and no
            server for it.
    """
    kind = kind_of(connector)
    opened = tuple(kind.policy.outlets(connector, endpoint_url))
    if not opened and kind.policy.place(connector) is None:
        raise ConnectorKindError(
            f"the kind {kind.title} declares neither a place nor a server for it"
        )
    sent = {credential for outlet in opened for credential in outlet.credentials}
    unsent = tuple(one for one in credentials_of(connector) if one not in sent)
    rest = (Outlet(what="its secrets", targets=(), credentials=unsent),) if unsent else ()
    return (*opened, *rest)


def secret_names(credentials: tuple[Credential, ...]) -> tuple[str, ...]:
    """Return the names of the platform's secrets among credentials, each once."""
    return tuple(
        dict.fromkeys(
            credential.name for credential in credentials if isinstance(credential, SecretRef)
        )
    )


def missing_rules(policy: Policy, secret: str) -> str:
    """Return the hint for a secret without a rule in the policy; empty if it has one."""
    return "" if policy.secret_rules(secret) else _rule_hint(secret)


def _ungranted(
    rules: Iterable[SecretRule], targets: Iterable[Destination]
) -> tuple[Destination, ...]:
    hosts = [host for rule in rules for host in rule.hosts]
    return tuple(target for target in targets if not is_granted(target, hosts))


def _rule_hint(
    secret: str, *, branch: str = "main", hosts: Sequence[Destination] = (), is_code: bool = False
) -> str:
    lines = [
        "ask the operator for this rule in the policy file:",
        "[[secrets]]",
        f'name = "{secret}"',
        f'branches = ["{branch}"]',
    ]
    if is_code:
        lines.append("code = true")
    else:
        listed = ", ".join(f'"{host}"' for host in hosts) or '"host:port"'
        lines.append(f"hosts = [{listed}]")
    return "\n".join(lines)


def _allow_hint(target: Destination) -> str:
    return (
        "use a public host, or ask the operator to add this to the policy file:\n"
        f'[egress]\nallow = ["{target}"]'
    )


def _codes(definitions: Definitions) -> Iterator[tuple[str, UserCode]]:
    """Return each author function that runs in a job or in a query, with its name."""
    for dataset in definitions.datasets:
        for source in dataset.sources:
            yield from _of_source(source)
        yield from _of_pipelines(dataset)
    for featureset in definitions.featuresets:
        for extractor in featureset.extractors:
            if isinstance(extractor, CodeExtractor):
                yield f"extractor `{extractor.name}`", extractor.code


def _of_source(source: Source) -> Iterator[tuple[str, UserCode]]:
    named = [(f"`preproc` of `{name}`", step) for name, step in source.preproc]
    for what, step in (*named, ("`where`", source.where)):
        if isinstance(step, ComputedByCode | WhereByCode):
            yield f"{what} of `{source_id(source)}`", step.code


def _of_pipelines(dataset: Dataset) -> Iterator[tuple[str, UserCode]]:
    for pipeline in dataset.pipelines:
        for step in all_steps(pipeline.terminal):
            match step:
                case (
                    AssignCode(code=code)
                    | Transform(code=code)
                    | Filter(predicate=UserCode() as code)
                ):
                    yield f"pipeline `{dataset.name}.{pipeline.name}`", code
                case _:
                    pass


def _names_read(source: str) -> tuple[str, ...]:
    """Return the names of the secrets that a source text reads; none if one is not a literal.

    This checks the commit only: the provider of secrets to running code checks the policy again.
    """
    tree = ast.parse(source)
    modules, functions = _imported(tree)
    literal: dict[int, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function, args=[ast.Constant(value=str(name))]):
                literal[id(function)] = name
            case _:
                pass
    read = [node for node in ast.walk(tree) if _is_get(node, modules, functions)]
    if not all(id(node) in literal for node in read):
        return ()
    return tuple(dict.fromkeys(literal[id(node)] for node in read))


def _imported(tree: ast.Module) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names in a text bound to the module of secrets, and those bound to its `get`."""
    modules, functions = {READS_SECRETS}, set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules |= {
                    name.asname for name in names if name.name == READS_SECRETS and name.asname
                }
            case ast.ImportFrom(module=module, names=names) if module == READS_SECRETS:
                functions |= {name.asname or name.name for name in names if name.name == _GET}
            case ast.ImportFrom(names=names):
                modules |= {name.asname or name.name for name in names if name.name == "secrets"}
            case _:
                pass
    return frozenset(modules), frozenset(functions)


def _is_get(node: ast.AST, modules: frozenset[str], functions: frozenset[str]) -> bool:
    match node:
        case ast.Attribute(value=value, attr=attr):
            return attr == _GET and ast.unparse(value) in modules
        case ast.Name(id=name, ctx=ast.Load()):
            return name in functions
        case _:
            return False
