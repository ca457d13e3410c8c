"""`codeinfo serve` in a process of its own, as operators see it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from failover_tools import free_port
from patience import wait_until
from web_tools import environment_of


class Server:
    """`codeinfo serve` in a process of its own, with the operators' address."""

    def __init__(self, folder: Path, home: Path, *options: str, **environment: str) -> None:
        self.operators = f"127.0.0.1:{free_port()}"
        self.log = home / "log"
        env = environment_of(home) | {"CODEINFO_SERVE_METRICS_ADDRESS": self.operators} | environment
        command = [sys.executable, "-m", "codeinfo", "serve", "--port", "0", *options]
        home.mkdir(exist_ok=True)
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=sink)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert "served at" in line, line + self.log.read_text()
        self.address = line.split()[-1].removeprefix("http://").rstrip("/")
        self.headers: dict[str, str] = {"content-type": "application/json"}
        wait_until(lambda: self.status("/ready") == 200)

    def status(self, path: str, *, operators: bool = False) -> int:
        try:
            with urllib.request.urlopen(f"http://{self.operators if operators else self.address}{path}") as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def post(self, path: str, body: Any) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.address, timeout=120)
        connection.request("POST", path, json.dumps(body), self.headers)
        reply = connection.getresponse()
        reply.read()
        connection.close()
        return reply

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://{self.operators}/metrics") as reply:
            return str(reply.read().decode())

    def count(self, operation: str) -> float:
        pattern = rf'codeinfo_operation_seconds_count{{client="http",operation="{operation}"}} ([\d.]+)'
        return sum(map(float, re.findall(pattern, self.metrics())))

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)
