/*
 * Sharers of one rank, and a daemon that is killed and started again: what consumers bring back, who waits for whom, where
 * the run continues, and how many leases everybody has. The daemon and sharers may be killed between any two steps.
 * Filling is one step here; slot.pml has that. Each step names the function that it follows.
 *
 * With -DSHARERS=3, the third is a newcomer that comes to the second daemon; with batches, that is too large to be searched
 * as a whole.
 *
 * A defect is put back by -DDEFECT_NAME; tests/model/check.py lists them, and spin must find each.
 */
#define QUOTA            4 /* slots of the lane */
#define NOBODY           255
#define SHARERS_AT_FIRST 2
#ifndef AWAITED
#define AWAITED SHARERS_AT_FIRST /* wait_for of these */
#endif
#define WANTED(who) (who + 2) /* leases: unequal */

mtype = { ATTACHED, REFUSED, GRANT, COMPANY, END };
mtype = { GATHERING, RUNNING };

#ifdef DEFECT_NEWCOMERS_FIRST
#define LETS_OTHERS_RETURN(i) (state == GATHERING && gather_limit && members > 0 && !returning[i])
#else
#define LETS_OTHERS_RETURN(i) (state == GATHERING && (gather_limit || newcomers_wait) && members > 0 && !returning[i])
#endif

/* ---- Sockets: what was sent can be read after the other end has died ---- */

chan to_client[SHARERS] = [4] of { mtype, byte, byte }; /* what, batch or leases, company */
chan from_client[SHARERS] = [3] of { byte };
bool wants_in[SHARERS], hung_up[SHARERS];
byte token[SHARERS], leases_asked[SHARERS], company_asked[SHARERS];
bool returning[SHARERS], confirms[SHARERS];

bool alive = true;
byte life; /* which daemon this is */
byte connected_to[SHARERS];
byte daemon_kills = DAEMON_KILLS, client_kills = CLIENT_KILLS;

/* ---- The daemon's own memory ---- */

mtype state = GATHERING;
byte wait_for, gathered;
bool gather_limit, newcomers_wait, returns; /* gather_until_ns, newcomers_from_ns is set; returns_until_ns has not passed */
bool member[SHARERS], end_told[SHARERS], is_gathered[SHARERS];
bool unsent[SHARERS]; /* ATTACHED is still in the daemon */
byte cursor[SHARERS], prefetch[SHARERS], held[SHARERS], granted[SHARERS], told[SHARERS];
byte base, length; /* all that is in the window is ready */
byte members;
bool newcomer_in; /* before anybody who returns: leases that these were promised may be gone */

hidden byte c, d, k, n, company, taken, wanted; /* within one step */

#define COUNT(bits) (((bits) & 1) + ((bits) >> 1 & 1) + ((bits) >> 2 & 1) + ((bits) >> 3 & 1))
#if SHARERS > 2
#define EVERYBODY(what) what(0) + what(1) + what(2)
#define ALL_HELD        (held[0] | held[1] | held[2])
#else
#define EVERYBODY(what) what(0) + what(1)
#define ALL_HELD        (held[0] | held[1])
#endif

/* lane.c: lane_full */
#define SLOTS_USED (length + COUNT(ALL_HELD & ~(((1 << length) - 1) << base)))

/* served_feed.c: served_feed_company */
#define IS_COUNTED(who) (member[who] && !end_told[who] -> 1 : 0)
#define HERE            (EVERYBODY(IS_COUNTED) > 1 -> EVERYBODY(IS_COUNTED) : 1)
#define OF_ALL          (wait_for > HERE -> wait_for : HERE)
#define COMPANY_NOW     (state == RUNNING -> HERE : (gather_limit -> OF_ALL : 0))

/* lane.c: lane_trim */
inline lane_trim() {
    k = NOBODY;
    d = 0;
    do
    :: d < SHARERS ->
        if
        :: member[d] && cursor[d] < BATCHES && cursor[d] < k -> k = cursor[d]
        :: else
        fi;
        d++
    :: else -> break
    od;
    if
    :: members > 0 && k != NOBODY && base < k ->
        length = (k - base > length -> 0 : length - (k - base));
        base = k
    :: else
    fi
}
/* join.c: choose_prefetch */
inline choose_prefetch(who) {
    taken = 2;
    d = 0;
    do
    :: d < SHARERS -> taken = taken + (member[d] && d != who -> prefetch[d] - 1 : 0); d++
    :: else -> break
    od;
    n = (QUOTA > taken -> QUOTA - taken + 1 : 1);
    prefetch[who] = (wanted < n -> wanted : n)
}
/* places.c: join, served_feed.c: served_feed_gather, expect_return */
inline gather(who) {
    if
    :: members == 0 ->
        wait_for = (who < SHARERS_AT_FIRST -> (returning[who] && company_asked[who] > 0 -> company_asked[who] : AWAITED) : 1);
        gathered = 0;
        gather_limit = false;
        newcomers_wait = false;
        newcomer_in = false;
        returns = (life > 0); /* max_lag has not passed since the daemon's start */
        state = GATHERING
    :: else
    fi;
    if
    :: state == GATHERING && returning[who] ->
        newcomers_wait = true;
        n = (company_asked[who] > 0 -> company_asked[who] : AWAITED);
        wait_for = (n > wait_for -> n : wait_for);
        if
        :: company_asked[who] > 0 && !gather_limit -> gather_limit = true; returns = true
        :: else
        fi
    :: else
    fi
}
inline leave(who) {
    if
    :: member[who] ->
        member[who] = false;
        members--;
        gathered = (state == GATHERING && is_gathered[who] -> gathered - 1 : gathered);
        is_gathered[who] = false;
        unsent[who] = false;
        if
        :: members == 0 ->
            do
            :: base > 0 && (held[who] >> (base - 1) & 1) -> base--; length++ /* join.c: restore_window */
            :: else -> break
            od
        :: else
        fi;
        held[who] = 0;
        end_told[who] = false;
        lane_trim()
    :: else
    fi
}
inline forget_everything() {
    d = 0;
    do
    :: d < SHARERS ->
        member[d] = false;
        end_told[d] = false;
        is_gathered[d] = false;
        unsent[d] = false;
        cursor[d] = 0;
        prefetch[d] = 0;
        held[d] = 0;
        granted[d] = 0;
        told[d] = 0;
        wants_in[d] = false;
        hung_up[d] = false;
        do
        :: from_client[d]?_
        :: empty(from_client[d]) -> break
        od;
        d++
    :: else -> break
    od;
    base = 0;
    length = 0;
    members = 0;
    wait_for = 0;
    gathered = 0;
    gather_limit = false;
    newcomers_wait = false;
    newcomer_in = false;
    returns = false;
    state = GATHERING
}

/* served_feed.c: served_feed_gathered */
inline gather_one(who) {
    gathered = (state == GATHERING && !is_gathered[who] -> gathered + 1 : gathered);
    is_gathered[who] = true;
    state = (gathered >= wait_for -> RUNNING : state);
    newcomers_wait = (state == GATHERING -> newcomers_wait : false)
}

/* places.c: places_admit, admit; join.c: find_start, join_at */
inline admit() {
    wants_in[c] = false;
    gather(c);
    if
    :: members == 0 -> base = token[c]; length = 0 /* lane.c: lane_seek */
    :: else
    fi;
    /* join.c: find_start, lane.c: lane_can_begin */
    n = 0;
    d = 0;
    do
    :: d < SHARERS -> n = n | (member[d] && granted[d] > 0); d++
    :: else -> break
    od;
    token[c] = (returning[c] || members == 0 -> token[c] : base);
    if
#ifdef DEFECT_SHUT_OUT
    :: token[c] < base && n > 0 ->
#else
    :: token[c] < base && n > 0 && !(returning[c] && returns) ->
#endif
        /* Nobody who returns in time is shut out for having been slow. */
        assert(!(returning[c] && returns));
        to_client[c]!REFUSED, 0, 0
    :: else ->
        /* lane.c: lane_rewind */
        if
        :: token[c] < base -> base = token[c]; length = 0
        :: else
        fi;
        cursor[c] = token[c];
        granted[c] = 0;
#ifdef DEFECT_LEASES_FORGOTTEN
        wanted = WANTED(c);
#else
        wanted = (returning[c] -> leases_asked[c] : WANTED(c));
#endif
        choose_prefetch(c);
        member[c] = true;
        members++;
        told[c] = COMPANY_NOW;
        /* Those that return in time have the leases that they were promised. */
        newcomer_in = newcomer_in || (!returning[c] && !newcomers_wait && life > 0);
        assert(!(returning[c] && newcomers_wait && !newcomer_in) || prefetch[c] >= leases_asked[c]);
        unsent[c] = true;
        /* places.c: enter */
#ifdef DEFECT_UNCONFIRMED
        gather_one(c)
#else
        if
        :: !confirms[c] -> gather_one(c)
        :: else
        fi
#endif
    fi
}

#define EVENTS(i) \
    /* session_turn.c: session_act */ \
    :: atomic { hung_up[i] && empty(from_client[i]) -> hung_up[i] = false; wants_in[i] = false; leave(i) } \
    /* messages.c: handle_release, delivery.c: delivery_release */ \
    :: atomic { nempty(from_client[i]) -> \
        from_client[i]?n; \
        gather_one(i); \
        assert(n == NOBODY || (held[i] >> n & 1)); \
        held[i] = (n == NOBODY -> held[i] : held[i] & ~(1 << n)) } \
    :: atomic { wants_in[i] && !hung_up[i] && !LETS_OTHERS_RETURN(i) -> c = i; admit(); c = 0 } \
    /* session_turn.c: session_flush; the others may be sent something before, and the daemon killed in between */ \
    :: atomic { unsent[i] -> unsent[i] = false; to_client[i]!ATTACHED, prefetch[i], told[i] } \
    /* delivery.c: delivery_grant, pump.c: grant */ \
    :: atomic { member[i] && !unsent[i] && state == RUNNING && cursor[i] < BATCHES && cursor[i] >= base && \
                cursor[i] < base + length && COUNT(held[i]) < prefetch[i] && len(to_client[i]) < 3 -> \
        told[i] = COMPANY_NOW; \
        to_client[i]!GRANT, cursor[i], told[i]; \
        held[i] = held[i] | (1 << cursor[i]); \
        cursor[i] = cursor[i] + 1; \
        granted[i] = 1; \
        lane_trim() } \
    :: atomic { member[i] && !unsent[i] && state == RUNNING && cursor[i] == BATCHES && !end_told[i] && nfull(to_client[i]) -> \
        end_told[i] = true; \
        to_client[i]!END, 0, 0 } \
    /* pump.c: tell_company */ \
    :: atomic { member[i] && !unsent[i] && !end_told[i] && empty(to_client[i]) && COMPANY_NOW > 0 && COMPANY_NOW != told[i] -> \
        told[i] = COMPANY_NOW; \
        to_client[i]!COMPANY, 0, told[i] }

proctype daemon() {
end:
    do
    EVENTS(0)
    EVENTS(1)
#if SHARERS > 2
    EVENTS(2)
#endif
    /* delivery.c: delivery_pump */
    :: atomic { members > 0 && base + length < BATCHES && SLOTS_USED < QUOTA -> length++ }
    /* feed_turn.c: feed_tick */
#ifndef DEFECT_WAITS_FOR_THE_DEAD
    :: atomic { state == GATHERING && gather_limit -> state = RUNNING; newcomers_wait = false }
#endif
    :: atomic { newcomers_wait -> newcomers_wait = false }
    :: atomic { returns && state == RUNNING -> returns = false } /* max_lag has passed */
    :: atomic { daemon_kills > 0 -> daemon_kills--; forget_everything(); alive = false };
        atomic { life++; alive = true }
    od
}

#define DAEMON_LOST (empty(to_client[me]) && (!alive || connected_to[me] != life))

proctype client(byte me) {
    byte want, batch, company_known, leases, in_hand = NOBODY;
    mtype what;
    bool been_in;
    if
    :: me < SHARERS_AT_FIRST
    :: me >= SHARERS_AT_FIRST -> life > 0
    fi;
attach:
    /* attachment.c: send_attach, continue_from */
    atomic { alive ->
        connected_to[me] = life;
        token[me] = want;
        returning[me] = been_in;
        company_asked[me] = company_known;
        leases_asked[me] = leases;
        confirms[me] = (AWAITED > 1 && me < SHARERS_AT_FIRST && !been_in);
        wants_in[me] = true };
    do
    :: atomic { to_client[me]?ATTACHED, batch, company ->
        want = token[me];
        /* Whoever was waited for misses nothing, even if it did not hear of the place that it had. */
        assert(!confirms[me] || want == 0);
        if
        :: confirms[me] && alive && connected_to[me] == life -> from_client[me]!NOBODY /* leases.c: leases_confirm */
        :: else
        fi;
        leases = (been_in -> leases : batch); /* promise_of */
        company_known = (company > 0 -> company : company_known);
        been_in = true;
        batch = 0;
        break }
    :: to_client[me]?REFUSED, _, _ -> goto over
    :: atomic { DAEMON_LOST -> goto attach } /* reconnect.c: reconnect_try */
    od;
    do
    /* Before anything has been granted, all are waited for as long as it takes: wait_for. */
    :: timeout && state == GATHERING && !gather_limit -> goto over
    /* leases.c: leases_grant, batch.c: batch_take */
    :: atomic { in_hand == NOBODY && to_client[me]?[GRANT] ->
        to_client[me]?what, batch, company;
        company_known = (company > 0 -> company : company_known);
        assert(batch == want); /* a batch twice, or one lost */
        in_hand = batch;
        want++;
        batch = 0; what = 0 }
    :: atomic { to_client[me]?COMPANY, _, company -> company_known = company }
    /* handle.c: feed_batch_release */
    :: atomic { in_hand != NOBODY && alive && connected_to[me] == life && nfull(from_client[me]) -> from_client[me]!in_hand; in_hand = NOBODY }
    :: atomic { in_hand != NOBODY && (!alive || connected_to[me] != life) -> in_hand = NOBODY } /* nobody is there to be told */
    :: atomic { to_client[me]?END, _, _ -> goto over }
    /* handle.c: lose, reconnect.c: reconnect_begin; batches in hand stay there */
    :: atomic { DAEMON_LOST -> in_hand = NOBODY; goto attach }
    :: atomic { client_kills > 0 -> client_kills--; goto over }
    od;
over:
    atomic { hung_up[me] = (alive && connected_to[me] == life);
        do
        :: to_client[me]?_, _, _
        :: empty(to_client[me]) -> break
        od;
        want = 0; in_hand = 0; leases = 0; company_known = 0 }
}

init {
    atomic {
        run daemon();
        run client(0);
        run client(1);
#if SHARERS > 2
        run client(2)
#endif
    }
}
