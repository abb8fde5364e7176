"""Every check of this project, one session each.

    python -m pip install nox && nox -s tests

needs Python 3.11 and pip, nothing else. uv makes the environments when it is there.
Words after `--` go to the tool: `nox -s tests -- -k mailbox -x`.
"""

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests", "lint", "types", "docs"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
# Its folder has the newest published schema, too.
ACP_SDK = "@agentclientprotocol/sdk@^2.4"


def install(session: nox.Session, *groups: str) -> None:
    """Install the project from this folder with the named dependency groups.

    nox reads the groups itself: `pip install --group` needs a recent pip.
    """
    session.install("-e", ".", *nox.project.dependency_groups(PYPROJECT, *groups))


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests and every program in README.md and docs/.

    `nox -s tests -- tests/core` runs one area.
    """
    install(session, "test")
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def oldest(session: nox.Session) -> None:
    """Run the tests of `actors` on the oldest supported trio."""
    install(session, "test")
    session.install("trio==0.31.0", "attrs==23.2.0")
    session.run("pytest", "-n", "auto", "tests/actors", "tests/simulation", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format, import contracts and prose."""
    install(session, "lint")
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check")
    session.run("lint-imports", "--no-cache", "--no-logo")
    session.run("python", "-m", "tests.support.prose_check")


@nox.session
def types(session: nox.Session) -> None:
    """Run mypy, strict, on the packages, the tests and the build files."""
    install(session, "types")
    session.run("mypy", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation in docs/_build/html; a warning is an error."""
    install(session, "docs")
    session.run("towncrier", "build", "--draft", silent=True)  # the fragments are readable
    build = ["sphinx-build", "-q", "-W", "--keep-going", "-b", "html", *session.posargs]
    session.run(*build, "docs", "docs/_build/html")


@nox.session
def agents(session: nox.Session) -> None:
    """Run real agents, installed from their registries, with a stand-in model on loopback.

    `nox -s agents -- -k gemini` runs one. An agent that cannot be installed is skipped.
    """
    install(session, "test")
    session.run("pytest", "-m", "agents", "-rs", "tests/agents", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the figures, side by side with peers that this session installs."""
    install(session, "bench")
    session.run("python", "-m", "tests.bench", *session.posargs)


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the conformance suite of the Model Context Protocol against our server, with npx."""
    if shutil.which("npx") is None:
        session.skip("npx is not installed; it comes with node")
    install(session, "test")
    session.run("python", "-m", "tests.conformance")


@nox.session
def soak(session: nox.Session) -> None:
    """Explore many thousands of seeded schedules, in pieces; run it again to go on.

    `nox -s soak -- --minutes 20` stops after that time, `nox -s soak -- --help` lists the options.
    """
    install(session, "test")
    # The runner needs time to end its pieces; nox kills it half a second after Ctrl-C otherwise.
    words = ["python", "-m", "tests.soak", "--with-parent", *session.posargs]
    session.run(*words, interrupt_timeout=30, terminate_timeout=30)


@nox.session
def conformance_acp(session: nox.Session) -> None:
    """Judge `understudy acp` by the client of the TypeScript SDK and by the newest schema.

    It needs node and npm, and is skipped without them.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        session.skip("node and npm are not installed")
    install(session, "test")
    folder = session.create_tmp()
    session.run("npm", "install", "--prefix", folder, "--no-audit", ACP_SDK, external=True)
    # Absolute, because the client runs in another folder.
    environ = {"UNDERSTUDY_ACP_SDK": str(Path(folder).resolve())}
    session.run("pytest", "tests/acp_agent", *session.posargs, env=environ)
