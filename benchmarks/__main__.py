"""Print every ratio: the rival's time divided by ours. Absolute times depend on the machine, ratios much less."""

import json
import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's idle threads must not spin on our core


def main() -> None:
    from . import (
        first_result,
        gaussian,
        gradient,
        lipschitz,
        live_page,
        mean_shift,
        memory,
        metastable,
        noise,
        points,
        real_models,
        series,
        sweep,
        velocity,
        whole_run,
        workarounds,
    )

    table = []
    sources = (
        velocity,
        points,
        real_models,
        whole_run,
        gaussian,
        metastable,
        series,
        mean_shift,
        noise,
        sweep,
        lipschitz,
        gradient,
        first_result,
        live_page,
        workarounds,
    )
    for source in (*(module.rows for module in sources), whole_run.span_rows):
        for case, ratios in source():
            for rival, ratio in ratios.items():
                table.append({"case": case, "rival": rival, "ratio": ratio})
                print(f"{case:58s} {rival:34s} {ratio:7.2f}×", flush=True)
    extra = memory.extra_megabytes()
    table.append(
        {"case": "memory (20000, 3)", "rival": "dense matrix, 3200 MB", "ratio": 3200 / extra, "megabytes": extra}
    )
    print(f"{'extra memory of a velocity, (20000, 3)':58s} {'':34s} {extra:7.0f} MB (dense: 3200 MB)")
    peak, dense = lipschitz.peak_megabytes(), 8 * lipschitz.LARGE**2 / 1e6
    case = f"peak memory of the local Lipschitz constant, ({lipschitz.LARGE}, {lipschitz.D})"
    table.append({"case": case, "rival": "limit 2048 MB", "ratio": lipschitz.LIMIT / peak, "megabytes": peak})
    print(f"{case:58s} {'':34s} {peak:7.0f} MB (the matrix of weights alone: {dense:.0f} MB)")
    Path(__file__).with_name("results.json").write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
