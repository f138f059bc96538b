"""How long consumers had to wait after a kill. Measured where nothing else had happened at that time to the consumer, or to
what serves it."""

import collections
import time

NS_PER_S = 1_000_000_000
# What the documents promise, in seconds.
LIMITS = {"loader": 0.25, "supervisor": 2.0, "transfer process": None, "consumer": None, "loader paused": None}


class Recovery:
    def __init__(self, storm):
        self.storm = storm
        self.times = {role: [] for role in LIMITS}
        self.worst = []  # (seconds, role, names of lanes, when)
        self.hindrances = collections.deque(maxlen=1000)  # (lanes, from, until) of late

    def _note(self, role, seconds, names):
        self.times[role].append(seconds)
        self.worst = sorted([*self.worst, (round(seconds, 4), role, names, time.strftime("%X"))], reverse=True)[:40]

    def hinder(self, lanes, seconds):
        """For so long these lanes may have to wait for what serves them."""
        now = time.monotonic_ns()
        self.hindrances.append((lanes, now, now + int(seconds * NS_PER_S)))
        return self.hindrances[-1]

    def _undisturbed(self, lane, since_ns, until_ns=None, but=None):
        """Nor any other that shares its feed, nor what serves them, except for one hindrance."""
        until_ns = until_ns or time.monotonic_ns()
        group = [other for other in self.storm.everyone() if other is lane or other.shape.group == lane.shape.group != ""]
        hindered = any(
            hindrance is not but and begin < until_ns and end > since_ns and any(other in lanes for other in group)
            for hindrance in self.hindrances
            for lanes, begin, end in [hindrance]
        )
        return not hindered and all(other.disturbed_ns < since_ns for other in group)

    def _denied(self, since_ns):
        """Without descriptors or memory, a replacement cannot start."""
        return self.storm.denied_until * NS_PER_S > since_ns

    def _watch(self, lanes):
        return [lane for lane in lanes if lane.alive() and lane.running_ns()]

    def of_lanes(self, role, hindrance, seconds):
        """After a process that serves these lanes was killed: their longest wait that began within `seconds`."""
        watched, began, _ = hindrance
        watched, end = self._watch(watched), began + int(seconds * NS_PER_S)

        def look():
            if self.storm.last_upset_ns() > began - 2 * NS_PER_S or self._denied(began):
                return
            waits = [(lane.ledger.longest_wait(began, end), lane) for lane in watched]
            waits = [wait for wait, lane in waits if self._undisturbed(lane, began, end + wait, but=hindrance)]
            if waits:
                self._note(role, max(waits) / NS_PER_S, [lane.name for lane in watched])

        self.storm.later(seconds + 1.0, look)

    def of_supervisor(self):
        """Until each lane has its first batch of the next daemon."""
        began = time.monotonic_ns()
        for lane in self._watch(self.storm.everyone()):
            # Those that share a feed wait for one that was killed just before.
            if self._undisturbed(lane, began - 6 * NS_PER_S if lane.shape.group else began):
                self._await_generation(lane, began, 1.0)

    def _await_generation(self, lane, began, seconds):
        def look():
            if self.storm.upset_ns > began or self._denied(began) or not self._undisturbed(lane, began):
                return
            if lane.ledger.generation_ns > began:
                self._note("supervisor", (lane.ledger.generation_ns - began) / NS_PER_S, [lane.name])
            elif time.monotonic_ns() - began < 60 * NS_PER_S:
                self._await_generation(lane, began, 1.0)

        self.storm.later(seconds, look)

    def of_consumer(self, lane):
        """Until the one that takes its place has its first batch."""
        began = time.monotonic_ns()

        def look():
            if self.storm.last_upset_ns() > began - NS_PER_S or self._denied(began):
                return
            if lane.started_ns < began or lane.disturbed_ns > lane.started_ns:
                return
            if not lane.running_ns():
                self.storm.later(2.0, look)
            else:
                self._note("consumer", (lane.running_ns() - began) / NS_PER_S, [lane.name])

        self.storm.later(3.0, look)

    def table(self):
        """Rows for people, and figures."""
        rows, figures = [], {}
        for role, limit in LIMITS.items():
            times = sorted(self.times[role])
            if not times:
                continue
            beyond = sum(value > limit for value in times) if limit else 0
            figures[role] = {
                "measured": len(times), "p50_ms": pick(times, 0.5), "p99_ms": pick(times, 0.99),
                "max_ms": pick(times, 1.0), "limit_ms": limit and limit * 1e3, "beyond": beyond,
            }  # fmt: skip
            promise = f"limit {limit * 1e3:.0f} ms, {beyond} beyond" if limit else "no limit"
            rows.append(
                f"  {role:17} {len(times):6} measured   p50 {pick(times, 0.5):7.1f} ms   p99 {pick(times, 0.99):7.1f} ms"
                f"   max {pick(times, 1.0):7.1f} ms   {promise}"
            )
        return rows, figures


def pick(times, share):
    return round(1e3 * times[min(len(times) - 1, int(share * len(times)))], 1)
