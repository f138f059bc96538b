"""Mixes whose weights or files change, and what is refused."""

import os

import consumer
import data
import expected
import harness
import mixes
import test_tar


# ---- Weights that change -----------------------------------------------------------------------------------


def test_a_run_continues_with_other_weights():
    order = {"epochs": 3, "seed": 6, "shuffle": True}
    with mixes.serve().start() as feedd:
        with consumer.Consumer(feedd, "both", 10, step=True, share="old", **order) as reader:
            reader.attached()
            batches = reader.take(63)
            token = reader.token()
            said = mixes.weigh_again(feedd, (1, 1, 9))
            assert "mix both: changed (sources); feeds in use keep the old version" in said, said
            consumer.refused(feedd, "EEXIST", "other weights", dataset="both", share="old", **order)
            feedd.mixed.check(batches + reader.take(5), True, 6)
        changed = feedd.mixed.changed((1, 1, 9), 1, 130)
        with consumer.Consumer(feedd, "both", 10, step=True, resume=token, **order) as reader:
            reader.attached()
            rest = reader.take(40)
            again = reader.token()
        assert (rest[0]["epoch"], rest[0]["first"]) == (1, 130), rest[0]
        changed.check(rest, True, 6)
        # The second token has the place of the change: what follows is the same run, with any world size.
        last = []
        for rank in range(2):
            ranks = {"rank": rank, "world_size": 2, "local_world_size": 1}
            last += consumer.read(feedd, "both", 5, resume=again, **ranks, **order)
        changed.check(last, True, 6)
        mixes.weigh_again(feedd, (3, 2, 1))
        last = changed.changed((3, 2, 1), 2, 30)
        last.check(consumer.read(feedd, "both", 10, resume=again, **order), True, 6)
        # The first token, with the weights that it was made with, continues as if nothing had happened.
        feedd.mixed.check(consumer.read(feedd, "both", 10, resume=token, **order), True, 6)


def test_ranks_resume_together_with_other_weights():
    order = {"epochs": 200, "seed": 1, "shuffle": True, "world_size": 2, "wait_for": 2}
    with mixes.serve().start() as feedd:
        token = mixes.resume_after(feedd, 17, seed=1, shuffle=True)
        mixes.weigh_again(feedd, (1, 5, 5))
        changed = feedd.mixed.changed((1, 5, 5), 0, 170)
        readers = [consumer.Consumer(feedd, "both", 8, rank=rank, share="job", resume=token, step=True, **order)
                   for rank in range(2)]  # fmt: skip
        for reader in readers:
            reader.attached()
        batches = readers[0].take(6) + readers[1].take(6)
        # Who joins without a token joins where the feed is.
        late = consumer.Consumer(feedd, "both", 8, rank=1, share="job", step=True, **{**order, "wait_for": 1})
        late.attached()
        batches += late.take(1)
        changed.check(batches, True, 1)
        other = mixes.resume_after(feedd, 3, seed=1, shuffle=True)
        consumer.refused(feedd, "EEXIST", "other weights", dataset="both", batch_size=8, share="job", resume=other, **order)
        for reader in (late, *readers):
            reader.kill()


def test_a_daemon_that_returns_with_other_weights():
    """A run that was under way continues as it was; a new one has the new weights."""
    order = {"epochs": 2, "seed": 2, "shuffle": True}
    with mixes.serve().start() as feedd:
        with consumer.Consumer(feedd, "both", 10, step=True, reconnect_timeout=20000, **order) as reader:
            reader.attached()
            batches = reader.take(20)
            feedd.process.kill()
            feedd.process.wait()
            feedd.add_mix("both", dict(zip(feedd.names, (1, 1, 1))), mixes.EPOCH)
            feedd.write_config()
            feedd.start()
            batches += reader.take(50)
            token = reader.token()
        feedd.mixed.check(batches, True, 2)
        changed = feedd.mixed.changed((1, 1, 1), 1, 200)
        changed.check(consumer.read(feedd, "both", 10, resume=token, **order), True, 2)
        equal = expected.Mixed(feedd.mixed.sources, (1, 1, 1), mixes.EPOCH)
        mixes.check(feedd, mixed=equal, epochs=1)


def test_a_token_belongs_to_its_mix():
    with mixes.serve().start() as feedd:
        token = mixes.resume_after(feedd, 3)

        def refused(*parts, **options):
            feedd.write_config()
            feedd.ctl("reload")
            consumer.refused(feedd, "ESTALE", *parts, dataset="both", resume=token, **options)

        feedd.add_mix("both", dict(zip(feedd.names, (3, 2, 1))), mixes.EPOCH + 1)
        refused("other data")
        feedd.add_mix("both", {"part": 3, "first": 2, "few": 1}, mixes.EPOCH)
        refused("other data")
        feedd.add_mix("both", {"first": 3, "part": 2}, mixes.EPOCH)
        refused("other data")
        feedd.add_mix("both", dict(zip(feedd.names, (3, 2, 1))), mixes.EPOCH)
        feedd.add_view("part", "second", samples="10%..90%", split_seed=9)
        refused("other data")
        consumer.refused(feedd, "EINVAL", "damaged", dataset="both", resume=token.replace(".3:", ".4:"))


# ---- What goes wrong ---------------------------------------------------------------------------------------


def test_samples_that_cannot_be_read():
    with mixes.serve() as feedd:
        feedd.mixes["both"]["on_error"] = "skip"
        feedd.add_mix("strict", {"first": 1, "part": 1}, 300)
        feedd.start()
        os.truncate(feedd.directory / "first.bin", 100 * mixes.SIZE)
        batches = consumer.read(feedd, "both", 10, epochs=1, shuffle=True)
        given = [feedd.mixed.at(0, position) for batch in batches for position in batch["samples"]]
        lost = [feedd.mixed.at(0, position) for position in range(mixes.EPOCH)]
        sample = feedd.mixed.sources[0].sample
        lost = [(at, number) for at, number in lost if at == 0 and sample(number, True, 0) >= 100]
        assert sum(batch["skipped"] for batch in batches) == len(lost) > 0
        assert not set(lost) & set(given) and len(given) + len(lost) == mixes.EPOCH
        with consumer.Consumer(feedd, "strict", 10, epochs=1) as reader:
            reader.attached()
            # Which one is noticed first depends on the loaders; its position in the mix would be from 200 on.
            reader.fail("EIO", "first.bin", "dataset first: sample 1")


def test_a_reload_keeps_feeds_and_reports_what_is_wrong():
    with mixes.serve().start() as feedd:
        with consumer.Consumer(feedd, "both", 10, step=True, shuffle=True, epochs=1) as reader:
            reader.attached()
            batches = reader.take(3)
            feedd.mixes["both"]["source.gone"] = 1
            feedd.write_config()
            said = feedd.ctl("reload", check=False)
            assert said.returncode and "there is no dataset or view named" in said.stderr, said
            del feedd.mixes["both"], feedd.datasets["first"]
            feedd.write_config()
            said = feedd.ctl("reload").stdout
            assert "mix both: removed; feeds in use continue" in said, said
            batches += reader.take(47)
            reader.next_ends()
            feedd.mixed.check(batches, True, 0)
        consumer.refused(feedd, "ENOENT", dataset="both")


def test_only_who_may_use_all_sources_may_use_a_mix():
    stranger = 4711
    with mixes.serve() as feedd:
        feedd.settings["socket_mode"] = "0666"
        feedd.datasets["second"]["allow_users"] = "1"
        feedd.add_mix("open", {"first": 1}, 10)
        os.chmod(feedd.directory, 0o755)
        feedd.start()
        with consumer.Consumer(feedd, "both", 10, user=stranger) as reader:
            reader.expect_error("EACCES", "you may not use mix both", "all of its sources")
        with consumer.Consumer(feedd, "open", 10, user=stranger, epochs=1) as reader:
            reader.attached()
            reader.finish()
        mixes.check(feedd, epochs=1)


def refuse(*parts, status=1, **added):
    with mixes.serve() as feedd:
        data.write_npy(feedd.directory / "x.npy", "<f4", (9, mixes.SIZE), bytes(4 * 9 * mixes.SIZE))
        feedd.add_dataset("floats", format="npy", field_x=feedd.directory / "x.npy")
        feedd.add_dataset("other", format="npy", field_y=feedd.directory / "x.npy")
        for name, (sources, count) in added.items():
            feedd.add_mix(name, sources, count)
        done = feedd.check()
        assert done.returncode == status and len(done.stderr.splitlines()) == 1, done
        for part in parts:
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def test_wrong_configurations():
    wrong = {"status": os.EX_CONFIG}
    refuse("[mix m] source.floats: found field x of f32[24], wanted u8[24] as in source first",
           m=({"first": 1, "floats": 1}, 10))  # fmt: skip
    refuse("[mix m] source.other: found field y, wanted field x as in source floats", m=({"floats": 1, "other": 1}, 10))
    refuse("[mix m] source.both: found a mix, wanted a dataset or a view", m=({"both": 1}, 10), **wrong)
    refuse('[mix m] source.firts: there is no dataset or view named "firts"; perhaps you mean "first"',
           m=({"firts": 1}, 10), **wrong)  # fmt: skip
    refuse("[mix m] source.first: found '0', wanted a number above zero", m=({"first": 0}, 10), **wrong)
    refuse("[mix m] source.NAME: found nothing", m=({}, 10), **wrong)
    refuse('[mix m] epoch_samples: found "0", wanted a whole number', m=({"first": 1}, 0), **wrong)
    refuse("[mix m] source.NAME: found weights whose smallest whole numbers have a total of 1000000001",
           m=({"first": 1, "part": 10**9}, 10), **wrong)  # fmt: skip


def test_no_view_of_a_mix_can_be_brought():
    with mixes.serve().start() as feedd:
        consumer.refused(feedd, "EINVAL", "both is a mix, of which there are no views", dataset="both",
                         view="split:0:500000:1")  # fmt: skip


def test_a_mix_is_there_once_the_indices_of_its_sources_are():
    """One that cannot be built is named, and the mix is there when that is put right."""
    with harness.Instance() as feedd:
        shard = feedd.directory / "wds-0.tar"
        content = test_tar.add_shards(feedd, [test_tar.some(40)])
        feedd.add_mix("both", {"wds": 1}, 90)
        whole = shard.read_bytes()
        shard.write_bytes(whole[:3000])
        feedd.start()
        why = "the index of dataset both could not be built: the index of dataset wds could not be built: "
        consumer.refused(feedd, "ENODATA", why, dataset="both")
        shard.write_bytes(whole)
        feedd.ctl("index", "wds")
        batches = consumer.read(feedd, "both", 10, epochs=2, shuffle=True)
        expected.Mixed([expected.Source(content)], [1], 90).check(batches, True)
