"""Reports as a browser shows them: scripts run, pictures load, nothing is asked of a network."""

import shutil
import subprocess

import pytest

import tokenfield as tkf
from tokenfield.report import write_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=15000",
]


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed (make test installs it when run by root)")
def test_report_opens_offline_and_draws_its_interactive_plot(tmp_path):
    model = tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN())
    traj = tkf.simulate(model, tkf.uniform_sphere(12, 2, seed=0), 3.0, save_at=5)
    path = write_report(traj, tmp_path)
    command = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--dump-dom"]
    result = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, timeout=120)
    assert "main-svg" in result.stdout, result.stderr[-2000:]  # plotly has drawn
    assert "slider-container" in result.stdout
    complaints = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    assert complaints == []
