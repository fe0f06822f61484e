import hashlib
from pathlib import Path

import pytest

from narthex_stack.errors import JarRefusedError
from narthex_stack.machine.jars import (
    BROKER,
    CONNECTORS,
    cache_dir,
    check,
    committed,
    ivy_module,
    proxy_options,
    resolve,
)

EXPECTED = {"a-1.jar": hashlib.sha256(b"right").hexdigest()}


def test_a_jar_that_is_not_there_is_missing(tmp_path: Path) -> None:
    assert check(tmp_path, expected=EXPECTED) == ("a-1.jar",)


def test_the_listed_jar_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "a-1.jar").write_bytes(b"right")

    assert check(tmp_path, expected=EXPECTED) == ()


def test_a_jar_with_another_sum_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a-1.jar").write_bytes(b"wrong")

    with pytest.raises(JarRefusedError, match=r"a-1\.jar"):
        check(tmp_path, expected=EXPECTED)


def test_an_unlisted_jar_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b-1.jar").write_bytes(b"right")

    with pytest.raises(JarRefusedError, match="not on the committed list"):
        check(tmp_path, expected=EXPECTED)


def test_a_wrong_jar_in_the_cache_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    jars = tmp_path / "jars" / "spark"
    jars.mkdir(parents=True)
    (jars / "kafka-clients-3.9.2.jar").write_bytes(b"wrong")

    with pytest.raises(JarRefusedError, match="kafka-clients"):
        resolve(CONNECTORS, cache=tmp_path)


def test_each_root_is_on_the_committed_list() -> None:
    for jars in (BROKER, CONNECTORS):
        names = committed(jars)
        for root in jars.roots:
            assert f"{root.name}-{root.revision}.jar" in names


def test_a_connector_comes_without_what_its_pom_asks_for() -> None:
    assert 'transitive="true"' not in ivy_module(CONNECTORS)


def test_the_cache_is_the_one_that_is_named() -> None:
    assert cache_dir({"NARTHEX_CACHE": "/c"}) == Path("/c")


def test_a_proxy_of_the_environment_becomes_javas() -> None:
    options = proxy_options({"https_proxy": "http://u:p@proxy:3128/"})

    assert "-Dhttps.proxyHost=proxy" in options
    assert "-Dhttps.proxyPort=3128" in options
    assert proxy_options({}) == ()
