--------------------------- MODULE TwoPhaseCommit ---------------------------
(* The question of fsm/check/examples/two_phase_commit.py for TLC.          *)
(* Source: J. Gray and L. Lamport, Consensus on Transaction Commit, 3.      *)
CONSTANT Resources
VARIABLES resource, manager, heard, sent

vars == <<resource, manager, heard, sent>>

Start ==
    /\ resource = [r \in Resources |-> "working"]
    /\ manager = "waiting"
    /\ heard = {}
    /\ sent = {}

Prepares(r) ==
    /\ resource[r] = "working"
    /\ resource' = [resource EXCEPT ![r] = "prepared"]
    /\ sent' = sent \union {<<"prepared", r>>}
    /\ UNCHANGED <<manager, heard>>

Aborts(r) ==
    /\ resource[r] = "working"
    /\ resource' = [resource EXCEPT ![r] = "aborted"]
    /\ UNCHANGED <<manager, heard, sent>>

Hears(r) ==
    /\ manager = "waiting"
    /\ <<"prepared", r>> \in sent
    /\ heard' = heard \union {r}
    /\ UNCHANGED <<resource, manager, sent>>

Decides(decision) ==
    /\ manager = "waiting"
    /\ manager' = decision
    /\ sent' = sent \union {<<decision, "all">>}
    /\ UNCHANGED <<resource, heard>>

Obeys(r, decision) ==
    /\ <<decision, "all">> \in sent
    /\ resource' = [resource EXCEPT ![r] = decision]
    /\ UNCHANGED <<manager, heard, sent>>

Next ==
    \/ heard = Resources /\ Decides("committed")
    \/ Decides("aborted")
    \/ \E r \in Resources:
        \/ Prepares(r) \/ Aborts(r) \/ Hears(r)
        \/ Obeys(r, "committed") \/ Obeys(r, "aborted")

Spec == Start /\ [][Next]_vars

Agree == \A r, s \in Resources: ~(resource[r] = "committed" /\ resource[s] = "aborted")
=============================================================================
