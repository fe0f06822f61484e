"""The route by which a command line gets the token of a person who has signed in."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from narthex_server.errors import Forbidden, Missing, SignInUnavailable, TooManyAttempts
from narthex_server.security.auth import AuthenticatorDep
from narthex_server.security.route_rights import open_to_all
from narthex_server.sso.sign_in import SsoDep
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import Instant, PlainRoute

router = APIRouter(route_class=PlainRoute)


class SignInCall(BaseModel):
    """The code of a sign-in in the browser, and the verifier of its command."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    code: str = Field(min_length=1, max_length=4_096)
    verifier: str = Field(min_length=43, max_length=128)


class PersonalToken(TypedDict):
    """A token with the rights of a person's groups, which no other answer has."""

    token: str
    token_id: str
    name: str
    expires_at: Instant


@router.post(
    "/sso/token",
    dependencies=[open_to_all(is_recorded=True)],
    responses=raises(Missing, Forbidden, TooManyAttempts, SignInUnavailable),
)
def token(
    call: SignInCall, request: Request, sso: SsoDep, authenticator: AuthenticatorDep
) -> PersonalToken:
    """Exchange the code that `narthex login` got from the browser for a token, once."""
    caller = request.client.host if request.client else ""
    made = sso.exchange(call.code, verifier=call.verifier, caller=caller)
    request.state.principal = authenticator.tokens.holder(made.token)
    return {
        "token": made.token,
        "token_id": made.token_id,
        "name": made.signed_in.name,
        "expires_at": made.signed_in.ends_at.isoformat(),
    }
