/* A model of how ip-reconcile releases an address beside whereabouts' ADD and DEL. SPIN explores every order of the
 * steps. Each comment names the function of the product, or of whereabouts v0.9.4, for which a step stands.
 *
 * The world: one address. Sandbox 1 is the old sandbox of pod A, on node 1. Sandbox 2 is the new one of a pod with the
 * same name, on node 2. Sandbox 3 is of pod B, on node 1; with OVERLAP its pool is another one, whose range contains
 * the address, too. Reconciler 0 is the leader of "serve" with the fence, reconciler 1 is another process.
 *
 * The model releases more often than the product: each Stale verdict counts as proven, and it knows no pod objects.
 *
 * Switches, each with its default below: how often each fault may happen, OVERLAP, and the planted errors
 * NO_SECOND_CHECK, NO_PUT_BACK, NO_GATE, NO_FENCE and NO_EXPIRY. A recorded history (TRACE) orders the steps. */

#ifndef CRASHES
#define CRASHES 1 /* how often a reconciler or an ADD is killed */
#endif
#ifndef EXPIRIES
#define EXPIRIES 1 /* how often the Lease of a process that runs expires */
#endif
#ifndef FAULTS
#define FAULTS 1 /* how many requests are lost, answered too late, or applied after their caller gave up */
#endif
#ifndef RESTORES
#define RESTORES 1
#endif
#ifndef LIVENESS
#define LIVENESS 0
#endif
#ifndef SANDBOXES
#define SANDBOXES 3
#endif
#ifndef RECONCILERS
#define RECONCILERS 2
#endif

#define NODE(s) ((s) == 2) /* 0 is node 1, 1 is node 2 */
#define NAME(s) ((s) == 3 -> 2 : 1)
#ifdef OVERLAP
#define POOL(s) ((s) == 3)
#else
#define POOL(s) 0
#endif

/* The steps of a recorded history: what happened, and to which sandbox or by which reconciler. */
#define PATCHED 1   /* whereabouts' ADD wrote the allocation of a sandbox */
#define ADDED 2     /* ADD of a sandbox succeeded */
#define CLOSED 3    /* the network namespace of a sandbox is closed */
#define DELETED 4   /* a reconciler deleted the reservation */
#define RELEASED 5  /* a reconciler removed the allocation of a sandbox */
#define PUT_BACK 6  /* a reconciler created the reservation */
#define REPAIRED 7  /* a reconciler wrote the allocation of a sandbox */
#define BACKED_UP 8
#define RESTORED 9
#ifdef TRACE
#include "recorded.pml" /* recorded, LENGTH and load(), which the test writes */
byte at;
#define NEXT(what, whose) (at < LENGTH && recorded[at] == (what) * 8 + (whose))
#define STEP at++; assert(at < LENGTH) /* the end of the history is reached: it is a path of the model */
#define CHECK(x) skip
#else
#define NEXT(what, whose) true
#define STEP skip
#define CHECK(x) assert(x)
#endif

/* etcd: the allocation of each pool names a sandbox, 0 is none. The reservation has the pod's name, 0 is none, and a
 * UID. Versions and UIDs are only compared: a new one is a number that nobody remembers, so that they stay few. */
byte entry[2], version = 1, reserved, uid;
byte seen[6];    /* the version that a pod's ADD or DEL (1 to 3) and a reconciler (4, 5) have read */
byte res[2];     /* the UID of the reservation that a reconciler has read */
byte deleted[2]; /* the UID of the one that it has deleted, perhaps */

/* What nodes' reports say of a sandbox (podstate.Report). */
#define UNKNOWN 0
#define CARRIES 1 /* a sandbox with the address; one whose ADD is in progress counts as unknown */
#define ENDED 2   /* among "gone", or its network namespace is closed */
byte report[4];
bool fresh[2];        /* the report's Lease was renewed within a minute */
byte since[2] = 1;    /* 0: the report was written before the restore, 1: after, 2: under the complete fence */

/* The truth of a sandbox. */
#define NONE 0
#define ADDING 1
#define IN_USE 2
#define DELETING 3
#define GONE 4
byte sandbox[4];
bool killPod[4];

/* Whereabouts' Lease. */
#define FREE 0 /* 1 to 3 are the sandboxes' ADD and DEL */
#define RECONCILER(me) (4 + (me))
#define FENCE 6
#define DEAD 7 /* its holder was killed */
byte lease;

/* What a reconciler remembers (reconciler.Known). */
bool isNewer[2];  /* it has read or written something that the backup does not have */
bool behind[2];   /* and the restore has taken that back: the next read shows an older version */
byte restore[2];  /* 0: knows of none, 1: waits for every node's report, 2: settled */
bool killed[2];

/* The fence (kube/fence.go, restore/guardrun.go). */
#define NO_NEED 0
#define RAISED 1
#define COMPLETE 2
#define SETTLED 3
#define TIMED_OUT 4
byte fence;
bool wasRestored;
bool excused; /* an ADD ran after the restore before the fence stood, or after its timeout: docs/explain/safety.md */
bool gap;     /* a reconciler deleted the reservation, and nobody created one since */
bool changing[2];

/* Requests that are applied after their caller gave up. */
byte latePatch, latePatchVersion, lateDelete, lateCreate;

byte backup[5], crashes = CRASHES, expiries = EXPIRIES, faultsLeft = FAULTS, restores = RESTORES;
bool hasBackup, hasChanged; /* since the backup */

#define REMEMBERED(v) ((v) == seen[1] || (v) == seen[2] || (v) == seen[3] || (v) == seen[4] || (v) == seen[5] || \
	(v) == latePatchVersion || (v) == backup[0])
inline written(p, s) {
	entry[p] = s; version = 1; hasChanged = hasBackup;
	do
	:: REMEMBERED(version) -> version++
	:: else -> break
	od;
	if
	:: behind[0] || behind[1] -> behind[0] = false; behind[1] = false /* new writes have passed what was read before */
	:: true
	fi
}

#define KNOWN_UID(u) ((u) == res[0] || (u) == res[1] || (u) == deleted[0] || (u) == deleted[1] || \
	(u) == lateDelete || (u) == backup[4])
inline reserve(name) {
	reserved = name; gap = false; uid = 1;
	do
	:: KNOWN_UID(uid) -> uid++
	:: else -> break
	od
}
inline unreserve() { reserved = 0; uid = 0 }

#define USES(s) (sandbox[s] == IN_USE)
#define ANY_USES (USES(1) || USES(2) || USES(3))

inline dropLease(who) {
	if :: lease == who -> lease = FREE :: else fi
}
inline leave(who) { /* killed: its Lease expires */
	if :: lease == who -> lease = DEAD :: else fi
}

/* Invariant 2: the allocation of an address that an existing network namespace has is not released. */
inline checkRelease(s) {
	gap = false; /* the reservation of a released allocation is not missing */
	CHECK(sandbox[s] == GONE);
	CHECK(entry[POOL(s)] == s); /* invariant 4: the version alone shows that the allocation is the one that was judged */
	CHECK(!(USES(1) && POOL(1) == POOL(s) || USES(2) && POOL(2) == POOL(s) || USES(3) && POOL(3) == POOL(s)))
}

/* whereabouts: IPManagementKubernetesUpdate. A sandbox runs it twice: as ADD and as DEL. It goes on if its Lease
 * expires: a request may be on its way. */
inline close(s) { /* the network namespace is closed, and the process has ended */
	sandbox[s] = GONE; seen[s] = 0; was = 0; adopts = false; killPod[s] = false
}

proctype Pod(byte s) {
	byte was;
	bool adopts;

end_start: /* pod A's successor starts when kubelet ends the old sandbox */
	{
		atomic {
#ifdef NO_FENCE
			(lease == FREE || lease == FENCE) && /* the elector of ADD takes the Lease */
#else
			lease == FREE &&
#endif
			(s != 2 || sandbox[1] >= DELETING) -> lease = s; sandbox[s] = ADDING;
			if :: wasRestored && (fence < COMPLETE || fence == TIMED_OUT) -> excused = true :: else fi;
read:
			seen[s] = version; was = entry[POOL(s)]; /* GetIPPool */
			if :: was != 0 && NAME(was) != NAME(s) -> goto other /* AssignIP finds another address */ :: else fi
		}
		atomic { was = reserved; /* GetOverlappingRangeIPReservation; what it has found once holds for later tries */
			if :: was != 0 && was != NAME(s) -> goto other :: else fi; adopts = adopts || was != 0; was = 0 }
		if
		:: atomic { version != seen[s] -> goto read } /* pool.Update: a conflict is tried again */
		:: atomic { version == seen[s] && NEXT(PATCHED, s) -> seen[s] = 0; written(POOL(s), s); STEP }
		:: atomic { version == seen[s] && faultsLeft > 0 -> faultsLeft--; goto other } /* the request is lost */
		fi;
		atomic { NEXT(ADDED, s) -> STEP;
			if
			:: adopts /* the reservation, without a write */
			:: !adopts && reserved == 0 -> reserve(NAME(s)) /* UpdateOverlappingRangeAllocation */
			:: !adopts && reserved != 0 -> goto other /* AlreadyExists: ADD fails */
			fi;
			/* Invariant 3: no two pods get one address because of a release. */
			CHECK(excused || !ANY_USES);
			sandbox[s] = IN_USE; adopts = false; dropLease(s) }
	} unless { atomic { killPod[s] -> close(s); leave(s); goto end_gone } }
end_use:
	if
	:: atomic { sandbox[s] == IN_USE && NEXT(CLOSED, s) -> STEP; close(s); goto end_gone } /* its DEL is lost */
#ifndef LOST_DELS
	:: atomic { sandbox[s] == IN_USE -> sandbox[s] = DELETING }
#endif
	fi;
	{
		atomic { lease == FREE -> lease = s;
again:
			seen[s] = version; was = entry[POOL(s)] } /* DeallocateIP finds the allocation by its sandbox */
		if
		:: atomic { was != s && NEXT(CLOSED, s) -> STEP; close(s); dropLease(s); goto end_gone }
		:: atomic { was == s && version != seen[s] -> goto again }
		:: atomic { was == s && version == seen[s] -> seen[s] = 0; was = 0; written(POOL(s), 0) }
		fi;
		atomic { NEXT(CLOSED, s) -> STEP; unreserve(); gap = false; /* by name, without precondition */
			close(s); dropLease(s) }
	} unless { atomic { killPod[s] -> close(s); leave(s) } };
	goto end_gone;
other: /* the sandbox ends without this address; what ADD wrote remains */
	atomic { close(s); dropLease(s) }
end_gone:
	skip
}

/* reconciler/judge: one function judges at the first check and at the second one. A report speaks while it is fresh;
 * claims (claims.go) also count in expired reports. */
#define CLAIMED(s) ((s) != 1 && report[1] == CARRIES || (s) != 2 && report[2] == CARRIES || \
	(s) != 3 && report[3] == CARRIES)
#define LEAKED(s) ((s) != 0 && report[s] == ENDED && fresh[NODE(s)] && !CLAIMED(s))
#define ALL_REPORTED (since[0] >= 1 && since[1] >= 1)
#define DETECTS(me) (behind[me] || restore[me] == 0 && wasRestored && (since[0] > 0 || since[1] > 0))
#ifdef NO_GATE
#define GATE(me) true
#else
#define GATE(me) (restore[me] != 1)
#endif

/* State.Observe and Settle of package restore, then Guard.ReportRestore: what each read of a process does first. An
 * agent notes a restore on each report that it writes afterwards, because its own last write is lost. */
inline observe(me) {
	if
	:: DETECTS(me) -> restore[me] = 1;
		if :: fence == NO_NEED && me == 0 -> fence = RAISED :: else fi
	:: else
	fi;
	if :: restore[me] == 1 && ALL_REPORTED -> restore[me] = 2 :: else fi;
	behind[me] = false; isNewer[me] = hasChanged
}

/* What is to be repaired, as the reports have it (findings Unrecorded and Misrecorded, MissingReservation). */
#define UNRECORDED(s) (report[s] == CARRIES && fresh[NODE(s)] && (entry[POOL(s)] == 0 || \
	entry[POOL(s)] != s && report[entry[POOL(s)]] == ENDED))
#define UNRESERVED(s) (report[s] == CARRIES && fresh[NODE(s)] && entry[POOL(s)] == s && reserved == 0)
#define DEFECT(s) (UNRECORDED(s) || UNRESERVED(s))

/* Session.IsOpen: the Lease under which the change began is still held, its own one or the fence's (fencedHold). */
#define MAY_FENCED(me) ((me) == 0 && lease == FENCE && fence == COMPLETE && restore[0] != 0)
#define HOLDS(me) (underFence -> MAY_FENCED(me) : lease == RECONCILER(me))

#define ME (4 + me)
inline list() { seen[ME] = version; res[me] = uid; resName = reserved }

proctype Reconciler(byte me) {
	byte s, p, resName, tries;
	bool underFence, unsure;

start:
	{
	atomic { behind[me] = false; isNewer[me] = false; restore[me] = 0; changing[me] = false;
		if :: fence == RAISED || fence == COMPLETE -> restore[me] = 1 /* State.Read: others have shared it (Share) */ :: else fi }
end_pass:
	atomic { s = 0; seen[ME] = 0; p = 0; deleted[me] = 0; tries = 0; underFence = false; unsure = false; changing[me] = false;
		res[me] = 0; resName = 0 }
	/* The first check. A pass that finds nothing changes nothing, so passes begin only where there is work. */
end_idle:
	if
	:: atomic { DETECTS(me) || restore[me] == 1 && ALL_REPORTED -> observe(me); goto end_pass } /* State.Pauses */
	:: atomic { !DETECTS(me) && LEAKED(entry[0]) && GATE(me) -> observe(me); s = entry[0]; list() }
#ifdef OVERLAP
	:: atomic { !DETECTS(me) && LEAKED(entry[1]) && GATE(me) -> observe(me); s = entry[1]; p = 1; list() }
#endif
	:: atomic { !DETECTS(me) && DEFECT(1) -> observe(me); s = 1; goto repair }
	:: atomic { !DETECTS(me) && DEFECT(2) -> observe(me); s = 2; goto repair }
	:: atomic { !DETECTS(me) && DEFECT(3) -> observe(me); s = 3; goto repair }
	/* Guard.PassEnded and lowerIfDue: every node renewed its report under the fence, and nothing is to be repaired. */
	:: atomic { me == 0 && fence == COMPLETE && since[0] == 2 && since[1] == 2 &&
			!DEFECT(1) && !DEFECT(2) && !DEFECT(3) ->
		fence = SETTLED; lease = (lease == FENCE -> FREE : lease); goto end_pass }
	fi;

	/* executor.attempt: Leases.Hold takes the Lease, or runs under the fence. */
end_hold:
	if
	:: atomic { lease == FREE -> lease = RECONCILER(me); changing[me] = true; underFence = false }
	:: atomic { MAY_FENCED(me) -> changing[me] = true; underFence = true }
	fi;
#ifndef NO_SECOND_CHECK
	/* executor.check: refresh reads reports again. Then the pool is read live, and releaseRules.Recheck judges again. */
	if
	:: atomic { DETECTS(me) || !LEAKED(s) || !GATE(me) -> observe(me); goto rollback }
	:: atomic { !DETECTS(me) && LEAKED(s) && GATE(me) -> observe(me) }
	fi;
	if
	:: atomic { entry[p] != s -> goto rollback }
	:: atomic { entry[p] == s -> seen[ME] = version;
		if :: res[me] == 0 || tries > 0 -> res[me] = uid; resName = reserved /* Release.Keys */ :: else fi }
	fi;
#endif
	/* executor.deleteReservations: Cluster.DeleteReservation with the UID, if the reservation has the podref. A delete
	 * without answer is sent again: once that has arrived, the first one cannot match any more. */
delete:
	if
	:: atomic { HOLDS(me) && resName == NAME(s) && reserved != 0 && uid == res[me] && NEXT(DELETED, me) ->
		unreserve(); gap = true; deleted[me] = res[me]; STEP }
	:: atomic { HOLDS(me) && resName == NAME(s) && reserved == 0 -> deleted[me] = res[me] } /* 404 */
	:: atomic { HOLDS(me) && resName == NAME(s) && reserved != 0 && uid != res[me] -> goto failed } /* 409 */
	:: atomic { HOLDS(me) && resName == NAME(s) && faultsLeft > 0 -> faultsLeft--; goto unanswered }
	:: atomic { HOLDS(me) && resName == NAME(s) && faultsLeft > 0 && reserved != 0 && uid == res[me] ->
		faultsLeft--; unreserve(); gap = true; goto unanswered } /* the answer is lost */
	:: atomic { HOLDS(me) && resName == NAME(s) && faultsLeft > 0 && lateDelete == 0 ->
		faultsLeft--; lateDelete = res[me]; goto unanswered }
	:: atomic { HOLDS(me) && resName != NAME(s) -> skip }
	:: atomic { !HOLDS(me) -> goto failed } /* errNotSent */
	fi;
	/* executor.patchPool: ippool.RemovePatch tests the resourceVersion and the allocation. */
	if
	:: atomic { HOLDS(me) && version == seen[ME] && NEXT(RELEASED, s) ->
		checkRelease(s); written(p, 0); isNewer[me] = hasChanged; STEP; dropLease(RECONCILER(me)); goto finish }
	:: atomic { HOLDS(me) && version != seen[ME] -> goto failed } /* 422 */
	:: atomic { HOLDS(me) && faultsLeft > 0 -> faultsLeft--; goto failed }
	:: atomic { HOLDS(me) && faultsLeft > 0 && version == seen[ME] ->
		faultsLeft--; checkRelease(s); written(p, 0); goto failed } /* the answer is lost */
	:: atomic { HOLDS(me) && faultsLeft > 0 && latePatch == 0 ->
		faultsLeft--; latePatch = s; latePatchVersion = seen[ME]; goto failed }
	:: atomic { !HOLDS(me) -> goto failed }
	fi;

unanswered:
	atomic { deleted[me] = res[me];
		if :: unsure -> skip :: else -> unsure = true; goto delete fi }
failed: /* executor.settle, under the hold: the second check of a change whose reservation is deleted, perhaps */
	atomic { tries++; unsure = false }
#ifdef NO_SECOND_CHECK
	goto putBack;
#endif
	if
	:: atomic { DETECTS(me) || !LEAKED(s) || !GATE(me) -> observe(me); goto rollback }
	:: atomic { !DETECTS(me) && LEAKED(s) && GATE(me) -> observe(me) }
	fi;
	if
	:: atomic { entry[p] == s -> dropLease(RECONCILER(me)); /* it still stands */
		if :: tries == 2 -> goto putBack /* giveUp */ :: else -> goto end_hold fi }
	:: atomic { entry[p] != s -> skip }
	fi;
rollback: /* toRecreate: an allocation of that podref that is not proven stale needs the reservation */
	if
	:: atomic { deleted[me] != 0 && entry[p] != 0 && NAME(entry[p]) == NAME(s) &&
			(entry[p] == s || !LEAKED(entry[p])) -> skip }
	:: atomic { else -> goto finish }
	fi;
putBack: /* executor.recreateReservations; a change whose hold has ended needs no Lease */
#ifndef NO_PUT_BACK
	do
	:: atomic { deleted[me] == 0 -> break }
	:: atomic { deleted[me] != 0 && reserved == 0 && NEXT(PUT_BACK, me) -> reserve(NAME(s)); STEP; break }
	:: atomic { deleted[me] != 0 && faultsLeft > 0 && lateCreate == 0 -> faultsLeft--; lateCreate = NAME(s) }
	:: atomic { deleted[me] != 0 && reserved != 0 && uid == deleted[me] ->
		unreserve(); gap = true } /* then it is created */
	:: atomic { deleted[me] != 0 && reserved != 0 && uid != deleted[me] -> break }
	od;
#endif
finish:
	/* invariant 5: a reservation that was deleted for an allocation that proves live is there again. */
	atomic { dropLease(RECONCILER(me)); changing[me] = false;
		CHECK(!(gap && !changing[1 - me] && USES(entry[0]) && !excused && crashes == CRASHES));
		goto end_pass }

repair: /* executor with repairs: Leases.Hold, the second check, ippool.WritePatch, createReservation */
	if
	:: atomic { lease == FREE -> lease = RECONCILER(me); underFence = false }
	:: atomic { MAY_FENCED(me) -> underFence = true }
	:: atomic { !DEFECT(s) -> goto end_pass }
	fi;
	atomic { seen[ME] = version; observe(me) }
	if
	:: atomic { HOLDS(me) && UNRECORDED(s) && version == seen[ME] && NEXT(REPAIRED, s) -> written(POOL(s), s);
		isNewer[me] = hasChanged; STEP }
	:: atomic { HOLDS(me) && UNRESERVED(s) && version == seen[ME] -> skip }
	:: atomic { !HOLDS(me) || version != seen[ME] || !DEFECT(s) ->
		dropLease(RECONCILER(me)); goto end_pass }
	fi;
	atomic { dropLease(RECONCILER(me));
		if
		:: entry[POOL(s)] == s && reserved == 0 && NEXT(PUT_BACK, me) -> reserve(NAME(s)); STEP
		:: else
		fi; goto end_pass }
	} unless { atomic { killed[me] -> killed[me] = false; leave(RECONCILER(me)); goto start } }
}

/* The agent of a node (agent): it inspects the node, and writes the report if something changed, or after a restore. */
#define TRUTH(s) (sandbox[s] <= ADDING -> UNKNOWN : (sandbox[s] == GONE -> ENDED : CARRIES))
#define SINCE (fence == COMPLETE -> 2 : (since[n] > 1 -> since[n] : 1))

proctype Agent(bool n) {
end_agent:
	do
	:: atomic { !n && (!fresh[0] || since[0] < SINCE || report[1] != TRUTH(1) || report[3] != TRUTH(3)) ->
		report[1] = TRUTH(1); report[3] = TRUTH(3); fresh[0] = true; since[0] = SINCE }
	:: atomic { n && (!fresh[1] || since[1] < SINCE || report[2] != TRUTH(2)) ->
		report[2] = TRUTH(2); fresh[1] = true; since[1] = SINCE }
	od
}

/* What always happens in the end: dead holders' Leases expire, the fence takes the Lease, late requests arrive. */
proctype Server() {
end_server:
	do
#ifndef NO_EXPIRY
	:: atomic { lease == DEAD -> lease = FREE }
#endif
	:: atomic { fence == RAISED && lease == FREE -> lease = FENCE; fence = COMPLETE } /* fencedLease.renewOrTake */
	:: atomic { fence == NO_NEED && wasRestored && behind[0] ->
		fence = RAISED; restore[0] = 1 } /* Guard.handleAnswer */
	:: atomic { lateDelete != 0 ->
		if :: reserved != 0 && uid == lateDelete -> unreserve(); gap = true :: else fi; lateDelete = 0 }
	:: atomic { lateCreate != 0 ->
		if :: reserved == 0 -> reserve(lateCreate) :: else fi; lateCreate = 0 }
	:: atomic { latePatch != 0 ->
		if
		:: version == latePatchVersion ->
			checkRelease(latePatch); written(POOL(latePatch), 0)
		:: else
		fi; latePatch = 0; latePatchVersion = 0 }
	od
}

/* Time passes. Without it SPIN's fair runs would leave out those that get stuck. */
proctype Clock() {
end_clock:
	do
	:: timeout -> skip /* nothing else can happen */
	od
}

#define BUSY(s) (sandbox[s] == ADDING || sandbox[s] == DELETING)
inline endRequest(s) {
	if :: BUSY(s) -> killPod[s] = true :: else fi
}

/* What may happen, so many times. */
proctype Faults() {
end_faults:
	do
	:: atomic { crashes > 0 -> crashes--; killed[0] = true }
	:: atomic { crashes > 0 && RECONCILERS > 1 -> crashes--; killed[1] = true }
	:: atomic { crashes > 0 && BUSY(1) -> crashes--; killPod[1] = true }
	:: atomic { crashes > 0 && BUSY(2) -> crashes--; killPod[2] = true }
	:: atomic { crashes > 0 && BUSY(3) -> crashes--; killPod[3] = true }
	:: atomic { expiries > 0 && lease != FREE && lease != FENCE -> expiries--; lease = FREE }
	:: atomic { fence == COMPLETE -> fence = TIMED_OUT; lease = (lease == FENCE -> FREE : lease) }
	:: atomic { restores > 0 && !hasBackup && NEXT(BACKED_UP, 0) ->
		hasBackup = true; hasChanged = false; isNewer[0] = false; isNewer[1] = false; backup[0] = version;
		backup[1] = entry[0]; backup[2] = entry[1]; backup[3] = reserved; backup[4] = uid; STEP }
	/* etcd is away for longer than a request or a hold lasts, so ADDs and DELs in progress fail, and requests on their
	 * way are lost. Reports of the backup are expired (a backup of the last minute is an exception of safety.md), so
	 * they release nothing; what they claim would only hold more. */
	:: atomic { restores > 0 && hasBackup && NEXT(RESTORED, 0) -> restores--; hasBackup = false; STEP;
		behind[0] = isNewer[0]; behind[1] = isNewer[1]; isNewer[0] = false; isNewer[1] = false; hasChanged = false;
		version = backup[0]; entry[0] = backup[1]; entry[1] = backup[2]; reserved = backup[3]; uid = backup[4];
		report[1] = UNKNOWN; report[2] = UNKNOWN; report[3] = UNKNOWN;
		backup[0] = 0; backup[1] = 0; backup[2] = 0; backup[3] = 0; backup[4] = 0;
		fresh[0] = false; fresh[1] = false; since[0] = 0; since[1] = 0; wasRestored = true; gap = false;
		lease = FREE; latePatch = 0; latePatchVersion = 0; lateDelete = 0; lateCreate = 0;
		endRequest(1); endRequest(2); endRequest(3) }
	od
}

/* invariant 6: when nothing happens for a while, no stale allocation remains. */
#define STALE(p) (entry[p] != 0 && sandbox[entry[p]] == GONE)
ltl released { <> [] (!STALE(0) && !STALE(1)) }

init {
	atomic {
#ifdef TRACE
		load();
#endif
		run Pod(1); run Pod(2);
		if :: SANDBOXES > 2 -> run Pod(3) :: else fi;
		if :: LIVENESS -> run Clock() :: else fi;
		run Agent(0); run Agent(1); run Server(); run Faults();
		run Reconciler(0);
		if :: RECONCILERS > 1 -> run Reconciler(1) :: else fi
	}
}
