"""The section of the report on the best likelihoods."""

from __future__ import annotations

from pathlib import Path

from trainers.settings.record_protocol import RecordRun
from trainers.studies.records import deep_records, records, trials

READ_AS = {
    "fresh": "each drawn from its grey levels at random, anew at each epoch",
    "stochastic": "each drawn from its grey levels at random, once",
    "threshold": "black and white, by threshold or as they come",
}


def records_section(folder: Path) -> list[str]:
    """The records with their intervals, and how many trials their settings were chosen from."""
    done = records(folder).read()
    if not done:
        return []
    lines = [
        "## Best likelihoods\n",
        "Mean log-likelihood of the test images in nats, with the interval that follows from that of log Z "
        "(`tf_wcd.evaluation.log_partition_interval`). Thresholded images give figures about ten nats higher than "
        "those drawn from their grey levels: the two must never be compared. Settings were chosen on validation "
        "images and another seed; the last column counts these trials. `wcd reproduce --stage=records` makes the "
        "table.\n",
        "| data | images | method | rate | decay | epochs | test | interval | width | training images | minutes | "
        "trials |",
        "|---" * 12 + "|",
    ]
    tried = [record["settings"]["data"] for record in trials(folder).read()]
    for record in done:
        run = RecordRun.from_record(record["settings"])
        lines.append(
            f"| {run.data} | {READ_AS[run.binarize]} | {run.negative_phase}, k = {run.gibbs_steps}, "
            f"{run.chains} chains, {run.hidden} hidden | {run.learning_rate:g} | {run.weight_decay:g} | {run.epochs} | "
            f"**{record['estimate']:.2f}** | "
            f"{record['lower']:.2f} to {record['upper']:.2f} | {record['upper'] - record['lower']:.2f} | "
            f"{record['train']:.2f} | {record['training_seconds'] / 60:.0f} | {tried.count(run.data)} |"
        )
    return [*lines, "", *_deep_section(folder)]


def _deep_section(folder: Path) -> list[str]:
    """Deep Belief Networks: the bound, with log Z of the top RBM bracketed."""
    done = deep_records(folder).read()
    if not done:
        return []
    lines = [
        "A second layer on such a model, which starts as the first one transposed: the lower bound on the mean "
        "log-likelihood of the test images (`tf_wcd.evaluation.variational_bound`), and the interval that follows "
        "from that of log Z of the top RBM. Its settings come from no search.\n",
        "| data | images | hidden units | method | rate | epochs | bound | interval | width | minutes |",
        "|---" * 10 + "|",
    ]
    for record in done:
        run, below = RecordRun.from_record(record["settings"]), RecordRun.from_record(record["below"])
        lines.append(
            f"| {run.data} | {READ_AS[run.binarize]} | {below.hidden}-{run.hidden} | {run.negative_phase}, "
            f"k = {run.gibbs_steps}, {run.chains} chains | {run.learning_rate:g} | {run.epochs} | "
            f"**{record['estimate']:.2f}** | {record['lower']:.2f} to {record['upper']:.2f} | "
            f"{record['upper'] - record['lower']:.2f} | {record['training_seconds'] / 60:.0f} |"
        )
    return [*lines, ""]
