/*
 * One ring of SLOTS slots: a supervisor, two loaders whose reads may land late, a consumer that may be held up or killed,
 * and a transfer process that copies out of the ring. Each of them except the transfer process may be killed between any
 * two steps. Each step names the function that it follows.
 *
 * Position p of the epoch lies in the run that starts at sample p % 2, as its batch p / 2: runs overlap in rank and
 * sequence, as with batches of two samples and a token off the grid.
 *
 * A defect is put back by -DDEFECT_NAME; tests/model/check.py lists them, and spin must find each.
 */
#define SLOTS   2
#define BATCHES 2 /* of a run */

#if defined(DEFECT_RUN_IGNORED) || defined(DEFECT_FILL_IGNORED)
#define NAMES_COMPARED
#endif

#define MAY_BE_KILLED(kills, dead) \
    if \
    :: atomic { kills > 0 -> kills--; goto dead } \
    :: skip \
    fi

mtype = { GRANT, END, DETACHED };
mtype = { CHUNK_IDLE, CHUNK_FREE, CHUNK_CLAIMED, CHUNK_DONE, CHUNK_RECOVERED };
mtype = { SLOT_FREE, SLOT_FILLING, SLOT_READY };

/* ---- The ring: shared memory ---- */

typedef slot_record {
    byte fill, position; /* struct ring_slot */
#ifdef NAMES_COMPARED
    byte in_run, sequence;
#endif
    byte data;                    /* the position whose samples lie in the slot */
    mtype chunk = CHUNK_IDLE;     /* a batch is one chunk */
    byte owner
};
slot_record ring[SLOTS];

/* ---- Processes, sockets, reads in flight ---- */

bool supervisor_alive = true;
byte supervisor_kills = SUPERVISOR_KILLS, loader_kills = LOADER_KILLS, client_kills = CLIENT_KILLS;
byte joins = JOINS;

chan to_client = [3] of { mtype, byte, byte, byte };
chan from_client = [2] of { byte };
bool client_wants_in, client_hung_up;
byte client_wants; /* the position of its token */
bool client_let_in, client_refused;
byte client_run;

byte serial[2]; /* a loader's owner number: never given twice */
bool exited[2], reading[2];
byte read_slot[2], read_position[2];

bool copying[SLOTS]; /* by the transfer process */
byte copy_position[SLOTS];

/* ---- The supervisor's own memory ---- */

mtype phase[SLOTS] = SLOT_FREE;
bool in_window[SLOTS], held[SLOTS], abandoned[SLOTS];
byte slot_sequence[SLOTS];
byte window[SLOTS];
byte base, length, ready;
byte this_run = 1, offset;
bool client_in, tap_in, to_leave, end_told;
byte cursor, tap_cursor;
hidden byte s, i, n, position; /* within one step */

/* window.c: slot_free, slot_free_if_unused */
inline slot_free(n) {
    assert(ring[n].chunk != CHUNK_CLAIMED);
    ring[n].chunk = CHUNK_IDLE;
    phase[n] = SLOT_FREE
}
inline slot_free_if_unused(n) {
    if
#ifdef DEFECT_COPY_FORGOTTEN
    :: !held[n] && !in_window[n] -> slot_free(n)
#else
    :: !held[n] && !in_window[n] && !copying[n] -> slot_free(n)
#endif
    :: else
    fi
}
/* window.c: window_pop */
inline window_pop() {
    s = window[0];
    window[0] = window[1];
    base++;
    length--;
    if
    :: ready > 0 -> ready--
    :: else
    fi;
    in_window[s] = false;
    if
    :: phase[s] == SLOT_READY -> slot_free_if_unused(s)
#ifdef DEFECT_FREED_WHILE_FILLING
    :: else -> ring[s].chunk = CHUNK_IDLE; phase[s] = SLOT_FREE
#else
    :: else -> abandoned[s] = true
#endif
    fi
}
/* lane.c: lane_trim */
inline lane_trim() {
    if
    :: client_in || tap_in ->
        do
        :: length > 0 && (!client_in || base < cursor) && (!tap_in || base < tap_cursor) -> window_pop()
        :: else -> break
        od;
        if
        :: client_in && (!tap_in || cursor <= tap_cursor) && base < cursor -> base = cursor
        :: tap_in && (!client_in || tap_cursor <= cursor) && base < tap_cursor -> base = tap_cursor
        :: else
        fi
    :: else
    fi
}
/* join.c: delivery_leave of the client, restore_window */
inline leave() {
    client_in = false;
    if
    :: !tap_in && base > 0 && length < SLOTS ->
        i = 0;
        do
        :: i < SLOTS && base > 0 && held[i] && slot_sequence[i] == base - 1 && !in_window[i] ->
            window[1] = window[0];
            window[0] = i;
            in_window[i] = true;
            base--;
            length++;
            ready++;
            i = 0
        :: i < SLOTS && !(base > 0 && held[i] && slot_sequence[i] == base - 1 && !in_window[i]) -> i++
        :: i == SLOTS -> break
        od
    :: else
    fi;
    i = 0;
    do
    :: i < SLOTS ->
        if
        :: held[i] ->
            held[i] = false;
            slot_free_if_unused(i)
        :: else
        fi;
        i++
    :: else -> break
    od;
    lane_trim()
}
/* A lane that goes back in its run gives the same name to a batch again, perhaps in the same slot: a consumer that was
   detached, and has not yet heard of it, is not mistaken about what the slot held meanwhile, since `fill` is another one. */
/* places.c: place_feed, delivery.c: delivery_restart, lane.c: lane_remove, lane_seek */
inline place_feed(position) {
    if
    :: position % 2 == offset ->
        do
        :: length > 0 && !(position / 2 >= base && position / 2 - base <= length && base >= position / 2) ->
            window_pop()
        :: else -> break
        od;
        base = position / 2
    :: else ->
        do
        :: length > 0 -> window_pop()
        :: else -> break
        od;
        offset = position % 2;
        base = position / 2;
        ready = 0;
        this_run++
    fi
}

proctype supervisor() {
    byte filling;
end:
    do
    /* messages.c: handle_release */
    :: atomic { nempty(from_client) && !to_leave ->
        from_client?n;
        if
        :: client_in ->
            assert(held[n]);
            held[n] = false;
            slot_free_if_unused(n)
        :: else
        fi }
    /* session_turn.c: session_act, places.c: leave */
    :: atomic { client_hung_up && (to_leave || empty(from_client)) ->
        do
        :: from_client?_ /* a session that is closing handles no messages */
        :: to_client?_, _, _, _
        :: empty(from_client) && empty(to_client) -> break
        od;
        if
        :: client_in -> leave()
        :: else
        fi;
        to_leave = false;
        client_hung_up = false }
    /* feed_turn.c: detach_laggard. The client is told in the same turn, and its place is taken in the next. */
    :: atomic { client_in && !to_leave && tap_in && !client_hung_up && (held[0] || held[1]) && nfull(to_client) ->
#ifndef DEFECT_TOLD_LATE
        to_client!DETACHED, 0, 0, 0;
#endif
        to_leave = true }
    :: atomic { to_leave && client_in -> leave() }
#ifdef DEFECT_TOLD_LATE
    :: atomic { to_leave && !client_in && nfull(to_client) -> to_client!DETACHED, 0, 0, 0; to_leave = false }
#endif
    /* places.c: admit, join */
    :: atomic { client_wants_in ->
        client_wants_in = false;
        position = client_wants;
        end_told = false;
        if
        :: !tap_in -> place_feed(position)
        :: else
        fi;
        if
        :: position % 2 != offset || position / 2 < base -> client_refused = true /* find_start: ESTALE */
        :: else ->
            cursor = position / 2;
            client_in = true;
            client_run = this_run;
            client_let_in = true
        fi }
    /* A member on a GPU comes, from any position, and goes. fill_tap.c: its lane takes batches like a consumer. */
    :: atomic { joins > 0 && !tap_in ->
        joins--;
        if
        :: client_in -> tap_cursor = base
        :: else ->
            if
            :: position = 0
            :: position = 1
            fi;
            place_feed(position);
            tap_cursor = base
        fi;
        tap_in = true }
    :: atomic { tap_in -> tap_in = false; lane_trim() }
    /* pump.c: grant, at the end */
    :: atomic { client_in && !to_leave && cursor == BATCHES && !end_told && nfull(to_client) ->
        end_told = true;
        to_client!END, 0, 0, 0 }
    /* delivery.c: collect_ready, collect_abandoned */
    :: atomic { ready < length && ring[window[ready]].chunk == CHUNK_DONE ->
        phase[window[ready]] = SLOT_READY;
        ready++ }
    :: atomic { abandoned[0] && ring[0].chunk == CHUNK_DONE -> abandoned[0] = false; slot_free(0) }
    :: atomic { abandoned[1] && ring[1].chunk == CHUNK_DONE -> abandoned[1] = false; slot_free(1) }
    /* delivery.c: delivery_pump; ring_supervisor.c: ring_dispatch, name_batch. Others see each of these steps. */
    :: atomic { (client_in || tap_in) && base + length < BATCHES && (phase[0] == SLOT_FREE || phase[1] == SLOT_FREE) ->
        filling = (phase[0] == SLOT_FREE -> 0 : 1);
        assert(!copying[filling] && !held[filling]);
        phase[filling] = SLOT_FILLING;
        in_window[filling] = true;
        slot_sequence[filling] = base + length;
        window[length] = filling;
        length++ };
        MAY_BE_KILLED(supervisor_kills, dead);
#ifdef NAMES_COMPARED
        ring[filling].in_run = this_run;
        MAY_BE_KILLED(supervisor_kills, dead);
        ring[filling].sequence = slot_sequence[filling];
        MAY_BE_KILLED(supervisor_kills, dead);
#endif
#ifndef DEFECT_NAMED_LATE
        ring[filling].fill++;
        MAY_BE_KILLED(supervisor_kills, dead);
#endif
        ring[filling].position = 2 * slot_sequence[filling] + offset;
        MAY_BE_KILLED(supervisor_kills, dead);
#ifdef DEFECT_NAMED_LATE
        ring[filling].fill++;
#endif
        atomic { ring[filling].chunk = CHUNK_FREE; filling = 0 }
    /* delivery.c: delivery_grant */
    :: atomic { client_in && !to_leave && cursor >= base && cursor < base + ready && !held[0] && !held[1] &&
               nfull(to_client) ->
        n = window[cursor - base];
        assert(ring[n].data == ring[n].position && ring[n].position == 2 * cursor + offset);
        held[n] = true;
        to_client!GRANT, cursor, n, ring[n].fill;
        cursor++;
        lane_trim() }
    /* fill_tap.c: a copy is dispatched, and the slot keeps its bytes until the copy has ended */
    :: atomic { tap_in && tap_cursor >= base && tap_cursor < base + ready && !copying[window[tap_cursor - base]] ->
        n = window[tap_cursor - base];
        copying[n] = true;
        copy_position[n] = 2 * tap_cursor + offset;
        tap_cursor++;
        lane_trim() }
    :: atomic { copying[0] -> assert(ring[0].data == copy_position[0]); copying[0] = false;
        if :: phase[0] == SLOT_READY -> slot_free_if_unused(0) :: else fi }
    :: atomic { copying[1] -> assert(ring[1].data == copy_position[1]); copying[1] = false;
        if :: phase[1] == SLOT_READY -> slot_free_if_unused(1) :: else fi }
    /* feed_loaders.c, ring_supervisor.c: ring_recover, once the loader's life pipe has ended */
    :: atomic {
#ifdef DEFECT_REAPED_EARLY
        exited[0] || exited[1] -> n = (exited[0] -> 0 : 1);
#else
        (exited[0] && !reading[0]) || (exited[1] && !reading[1]) -> n = (exited[0] && !reading[0] -> 0 : 1);
#endif
        i = 0;
        do
        :: i < SLOTS ->
            if
            :: ring[i].chunk == CHUNK_CLAIMED && ring[i].owner == serial[n] -> ring[i].chunk = CHUNK_RECOVERED
            :: else
            fi;
            i++
        :: else -> break
        od;
        serial[n] = serial[n] + 2;
        exited[n] = false }
    :: atomic { supervisor_kills > 0 -> supervisor_kills--; goto dead }
    od;
dead:
    atomic { supervisor_alive = false; filling = 0 }
}

/* job_round.c. Its reads are the kernel's: they land, or are given up, after it has been killed too. */
proctype loader(byte me) {
    byte slot;
end:
    do
    :: do
       /* ring_loader.c: ring_claim */
       :: atomic { !exited[me] && (ring[0].chunk == CHUNK_FREE || ring[0].chunk == CHUNK_RECOVERED) ->
            ring[0].chunk = CHUNK_CLAIMED; ring[0].owner = serial[me]; slot = 0 };
            goto fill
       :: atomic { !exited[me] && (ring[1].chunk == CHUNK_FREE || ring[1].chunk == CHUNK_RECOVERED) ->
            ring[1].chunk = CHUNK_CLAIMED; ring[1].owner = serial[me]; slot = 1 };
            goto fill
       od;
fill:  if
       :: atomic { read_slot[me] = slot; read_position[me] = ring[slot].position; reading[me] = true } /* chunk.c */
       :: atomic { loader_kills > 0 -> loader_kills--; exited[me] = true; slot = 0; goto end }
       fi;
       if
       :: atomic { !reading[me] -> skip }
       :: atomic { loader_kills > 0 -> loader_kills--; exited[me] = true; slot = 0; goto end }
       fi;
       if
       :: atomic { ring[slot].chunk = CHUNK_DONE; slot = 0 } /* job_report.c: ring_chunk_done */
       :: atomic { loader_kills > 0 -> loader_kills--; exited[me] = true; slot = 0; goto end }
       fi;
    od
}

/* Lets a loader's read land, or gives it up if the loader is gone. */
proctype kernel(byte me) {
end:
    do
    :: atomic { reading[me] ->
        assert(ring[read_slot[me]].chunk == CHUNK_CLAIMED && ring[read_slot[me]].owner == serial[me]);
        ring[read_slot[me]].data = read_position[me];
        reading[me] = false }
    :: atomic { reading[me] && exited[me] -> reading[me] = false }
    od
}

/* leases.c: leases_still_ours */
#if defined(DEFECT_RUN_IGNORED)
#define IS_ANOTHERS (ring[slot].sequence != sequence)
#elif defined(DEFECT_FILL_IGNORED)
#define IS_ANOTHERS (ring[slot].sequence != sequence || ring[slot].in_run != my_run)
#else
#define IS_ANOTHERS (ring[slot].fill != fill)
#endif

proctype client() {
    byte slot, sequence, fill, got, my_run;
    byte want;
    bool lost;
attach:
    /* attachment.c: attachment_open; the answer says which run and which batch */
    atomic { client_wants = want; client_wants_in = true };
    do
    :: atomic { client_let_in -> client_let_in = false; my_run = client_run; break }
    :: atomic { client_refused -> goto over }
    :: !supervisor_alive -> goto over
    od;
next:
    do
    /* handle.c: receive_one, batch.c: batch_take */
    :: to_client?GRANT, sequence, slot, fill ->
        got = ring[slot].position; /* copy_record */
        if
        :: IS_ANOTHERS -> goto over /* taken_back */
        :: else
        fi;
        assert(got == want); /* another run's samples, a batch twice, or one lost */
        MAY_BE_KILLED(client_kills, killed);
        /* The application reads; meanwhile it may hear that the daemon is gone. */
        got = ring[slot].data;
        if
        :: empty(to_client) && !supervisor_alive -> lost = true
        :: skip
        fi;
        /* handle.c: feed_batch_release */
        if
        :: lost
        :: else ->
            if
            :: IS_ANOTHERS -> goto over
            :: else
            fi
        fi;
        assert(got == want); /* bytes of another batch */
        want = want + 2;
        if
        :: lost -> goto over
        :: else -> atomic { from_client!slot; slot = 0; got = 0; fill = 0; sequence = 0 }
        fi
    :: to_client?DETACHED, _, _, _ -> goto over
    :: to_client?END, _, _, _ -> goto over
    :: empty(to_client) && !supervisor_alive -> goto over
    :: atomic { client_kills > 0 -> client_kills--; goto killed }
    od;
killed: /* The job is started again, from the token that it saved after its last batch. */
    atomic { client_hung_up = true; slot = 0; got = 0; fill = 0; sequence = 0; my_run = 0 };
    if
    :: !client_hung_up -> goto attach
    :: !supervisor_alive
    fi;
over:
    atomic { client_hung_up = true; slot = 0; got = 0; fill = 0; sequence = 0; my_run = 0; want = 0 }
}

init {
    atomic {
        serial[0] = 1;
        serial[1] = 2;
        run supervisor();
        run loader(0);
#if LOADERS > 1
        run loader(1);
        run kernel(1);
#endif
        run kernel(0);
        run client()
    }
}
