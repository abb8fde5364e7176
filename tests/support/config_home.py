"""A home directory with a project and configuration files."""

from pathlib import Path

import attrs

from supervisor.configuration import ConfigProblem, Configuration, check, load


@attrs.frozen
class Home:
    folder: Path
    environ: dict[str, str]

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def write(self, name: str, text: str) -> Path:
        """Write a file below the home; `user`, `system` and `project` are configuration files."""
        places = {
            "user": ".config/understudy/understudy.toml",
            "system": "etc/understudy/understudy.toml",
            "project": "project/understudy.toml",
        }
        path = self.folder / places.get(name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    def load(
        self,
        *,
        flags: dict[str, object] | None = None,
        path: str | Path | None = None,
        **environ: str,
    ) -> Configuration:
        return load(cwd=self.project, environ={**self.environ, **environ}, flags=flags, path=path)

    def problems(self, text: str, **environ: str) -> list[ConfigProblem]:
        """Return the problems of this text as the project's file."""
        self.write("project", text)
        return check(cwd=self.project, environ={**self.environ, **environ})

    def problem(self, text: str) -> ConfigProblem:
        """Return the only problem of this text as the project's file."""
        (only,) = self.problems(text)
        return only


def make_home(folder: Path) -> Home:
    (folder / "project").mkdir()
    environ = {
        "HOME": str(folder),
        "XDG_CONFIG_DIRS": str(folder / "etc"),
        "XDG_RUNTIME_DIR": "/run/user/1000",
        "PATH": str(folder / "bin"),
    }
    return Home(folder, environ)
