"""Which errors of consumers have a reason, and what a storm says at its end."""

import collections
import errno
import json
import platform

ESTALE = errno.ESTALE
NO_DAEMON = {errno.ECONNREFUSED, errno.ECONNRESET, errno.ESHUTDOWN}
DENIED = {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EBUSY, errno.EFBIG, errno.ENOMEM, errno.EAGAIN, errno.EIO}
KILLS = ("kill_loader", "kill_transfer", "kill_supervisor", "kill_consumer", "kill_attaching")


def why(storm, lane, status, error, text):
    """In a few words, or None: nothing explains why this consumer has ended so."""
    shape = lane.shape
    if status != 1:
        return None
    if error == ESTALE and shape.group:
        return "came back too late to a shared feed"
    if error == errno.ETIME and shape.group:
        return "lagged, and was detached"
    if error in NO_DAEMON and text.startswith("feed_open"):
        return "attached while there was no daemon"
    if error == errno.EIO and shape.dataset == "failing":
        return "a sample could not be read"
    if error in (errno.ENODEV, errno.EIO) and "times in a row" in text:
        return "a GPU's transfer process was killed again and again before it had worked"
    if storm.was_denied(lane.ledger.failed_ns / 1e9) and error in DENIED:
        return "the machine denied something"
    if error in DENIED and "could not be built" in text and storm.was_denied_since(storm.daemon.started_at):
        return "an index could not be built when the machine denied something"
    if error in (errno.EBUSY, errno.ENOSPC) and lane in storm.visitors:
        return "a visitor found no room"
    return None


def total(storm, name):
    return sum(getattr(lane.ledger, name) for lane in storm.everyone())


def progress(storm, seconds):
    kills = sum(storm.counts.get(name, 0) for name in KILLS)
    print(
        f"  {seconds:.0f} s: {kills} kills, {total(storm, 'samples')} samples, {total(storm, 'lost')} lost,"
        f" {total(storm, 'doubled')} doubled, {total(storm, 'wrong')} wrong, {len(storm.findings)} findings", flush=True,
    )  # fmt: skip


def conclude(storm):
    """Prints the table; 1 if anything is not as it must be."""
    sums = {name: total(storm, name) for name in ("samples", "batches", "checked_again", "skipped", "lost", "doubled",
                                                  "wrong", "attached", "generations", "revoked", "replaced")}  # fmt: skip
    for lane in storm.everyone():
        ledger = lane.ledger
        if ledger.lost or ledger.doubled or ledger.wrong:
            counts = f"{ledger.lost} lost, {ledger.doubled} doubled, {ledger.wrong} wrong"
            storm.findings.append(f"{lane.name}: {counts}; {ledger.text}")
        if lane in storm.lanes and (difference := lane.account()):
            storm.findings.append(f"{lane.name}: {difference} samples more were committed than its token says")
        if ledger.passed_over and not storm.condemned:
            storm.findings.append(f"{lane.name}: {ledger.passed_over} images were skipped that can be decoded")
        if lane in storm.lanes and not ledger.commits:
            storm.findings.append(f"{lane.name} has received nothing")
    seconds, kills = storm.arguments.seconds, {name: storm.counts.get(name, 0) for name in KILLS}
    rows, recovery = storm.recovery.table()
    print(f"storm: {seconds:g} s, seed {storm.arguments.seed}, GPU {storm.arguments.gpu}, {platform.machine()}")
    print(f"kills survived: {sum(kills.values())} ({', '.join(f'{name[5:]} {count}' for name, count in kills.items())})")
    others = {name: count for name, count in sorted(storm.counts.items()) if name not in KILLS}
    print("other events:  ", ", ".join(f"{name} {count}" for name, count in others.items()))
    if storm.group.refusal or storm.storage.refusal:
        print("not possible here:", "; ".join(filter(None, (storm.group.refusal, storm.storage.refusal))))
    if storm.ended_by_kernel:
        print(f"ended by the kernel for want of memory: {storm.ended_by_kernel}")
    print(f"attached {sums['attached']} times, reconnected {sums['generations']} times")
    print(f"ends of consumers that have a reason: {storm.errors}")
    print(
        f"samples: {sums['samples']} checked in {sums['batches']} batches ({sums['checked_again']} again at their release),"
        f" {sums['skipped']} skipped as unreadable, {sums['replaced']} replaced\n"
        f"         {sums['lost']} lost, {sums['doubled']} doubled, {sums['wrong']} wrong"
    )  # fmt: skip
    print("recovery, as consumers see it:")
    print("\n".join(rows))
    print(f"leaks: {storm.grown_kib} KiB of private memory more than at first")
    for finding, times in collections.Counter(storm.findings).items():
        print("FINDING", finding, f"({times} times)" if times > 1 else "")
    failed = f"failed; the daemon's log is {storm.arguments.keep_log}"
    print("storm:", failed if storm.findings else "nothing lost, doubled, wrong or leaked")
    if storm.arguments.json:
        figures = {"seconds": seconds, "seed": storm.arguments.seed, "kills": kills, "events": others, **sums,
                   "recovery": recovery, "worst": storm.recovery.worst,
                   "errors": storm.errors, "findings": storm.findings}  # fmt: skip
        storm.arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if storm.findings else 0
