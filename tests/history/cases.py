"""Small histories made by hand, that a checker must accept or must reject. One
lock, and a watchdog's lease of 100 ms. TIME (milliseconds) OWNER OPERATION WHAT
[WORD...]"""

MS = 1_000_000

GOOD = {
    "one_owner": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 1.1 2 count
        4 1.1 2 counted 1
        5 1.1 3 release 1.1
        6 1.1 3 released 1.1
        7 1.1 4 count
        8 1.1 4 counted 0""",
    "reentrant": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 2 acquire 0 0
        3 1.1 2 granted 1.2
        4 1.1 0 held 1.1 90
        5 1.1 3 count
        6 1.1 3 counted 2
        7 1.1 4 release 1.1
        8 1.1 4 released 1.1
        9 1.1 5 count
        10 1.1 5 counted 1
        11 2.1 1 acquire 0 0
        12 2.1 1 refused 0
        13 1.1 6 release 1.2
        14 1.1 6 released 1.2
        15 2.1 2 acquire 0 0
        16 2.1 2 granted 2.1""",
    "handed_over_while_the_release_returns": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 2.1 1 acquire 50 0
        10 1.1 2 release 1.1
        11 2.1 1 granted 2.1
        12 2.1 0 held 2.1 90
        20 1.1 2 released 1.1""",
    "in_any_order_of_their_returns": """
        0 1.1 1 acquire 0 0
        1 2.1 1 acquire 50 0
        2 3.1 1 acquire 50 0
        9 3.1 1 granted 3.1
        9 3.1 2 release 3.1
        10 2.1 1 granted 2.1
        10 2.1 2 release 2.1
        11 1.1 1 granted 1.1
        12 2.1 2 released 2.1
        13 3.1 2 released 3.1""",
    "reply_to_an_acquire_lost": """
        0 1.1 1 acquire 0 0
        5 2.1 1 acquire 0 0
        6 2.1 1 refused 0
        10 1.1 1 unknown -4
        11 2.1 2 acquire 0 0
        12 2.1 2 granted 2.1
        13 2.1 0 held 2.1 90""",
    "reply_to_an_acquire_lost_and_counted": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 1.1 2 acquire 0 0
        10 1.1 2 unknown -4
        11 1.1 3 count
        12 1.1 3 counted 2
        13 1.1 4 count
        14 1.1 4 counted 1""",
    "reply_to_a_release_lost": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 1.1 2 release 1.1
        10 2.1 1 acquire 0 0
        11 2.1 1 granted 2.1
        12 2.1 0 held 2.1 90
        20 1.1 2 unknown 1.1 -12""",
    "release_not_confirmed_and_late": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 200
        3 1.1 2 release 1.1
        10 1.1 2 unknown 1.1 -12
        11 1.1 3 count
        12 1.1 3 counted 1
        13 2.1 1 acquire 0 0
        14 2.1 1 refused 0
        50 2.1 2 acquire 0 0
        51 2.1 2 granted 2.1""",
    "holder_killed": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 2.1 1 acquire 200 0
        93 2.1 1 granted 2.1
        94 2.1 0 held 2.1 90""",
    "killed_while_it_released": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 1.1 2 release -
        10 2.1 1 acquire 0 0
        11 2.1 1 granted 2.1
        12 2.1 0 held 2.1 90""",
    "killed_while_it_acquired": """
        0 1.1 1 acquire 0 0
        10 2.1 1 acquire 0 0
        11 2.1 1 refused 0
        400 2.1 2 acquire 0 0
        401 2.1 2 granted 2.1""",
    "lease_ended": """
        0 1.1 1 acquire 0 50
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 47
        3 2.1 1 acquire 200 0
        52 2.1 1 granted 2.1
        53 2.1 0 held 2.1 90
        60 1.1 0 ended 1.1 expired
        61 1.1 2 release 1.1
        62 1.1 2 lost 1.1""",
    "one_of_two_leases_ended": """
        0 1.1 1 acquire 0 200
        1 1.1 1 granted 1.1
        2 1.1 2 acquire 0 50
        3 1.1 2 granted 1.2
        4 1.1 0 held 1.1 190
        4 1.1 0 held 1.2 47
        5 1.1 3 count
        6 1.1 3 counted 2
        52 1.1 0 ended 1.2 expired
        53 1.1 4 count
        54 1.1 4 counted 2
        70 1.1 5 count
        71 1.1 5 counted 1
        72 1.1 6 release 1.1
        73 1.1 6 released 1.1""",
    "forced": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 3.1 1 force
        4 3.1 1 forced 1
        5 2.1 1 acquire 0 0
        6 2.1 1 granted 2.1
        7 1.1 0 held 1.1 85
        8 2.1 0 held 2.1 90
        9 1.1 0 ended 1.1 revoked
        10 1.1 2 release 1.1
        11 1.1 2 lost 1.1""",
    "forced_without_an_answer": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 3.1 1 force
        5 3.1 1 unknown -4
        20 1.1 2 count
        21 1.1 2 counted 1
        30 2.1 1 acquire 0 0
        31 2.1 1 granted 2.1
        32 2.1 0 held 2.1 90
        33 1.1 0 ended 1.1 revoked""",
    "forced_while_released": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 1.1 2 release 1.1
        4 3.1 1 force
        5 3.1 1 forced 1
        6 2.1 1 acquire 0 0
        7 2.1 1 granted 2.1
        9 1.1 2 released 1.1""",
    "forced_and_acquired_again": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 3.1 1 force
        3 3.1 1 forced 1
        4 1.1 2 acquire 0 0
        5 1.1 2 granted 1.2
        6 1.1 3 count
        7 1.1 3 counted 1
        8 1.1 0 ended 1.1 revoked
        9 1.1 4 release 1.2
        10 1.1 4 released 1.2""",
    "forced_when_free": """
        0 3.1 1 force
        1 3.1 1 forced 0
        2 1.1 1 acquire 0 0
        3 1.1 1 granted 1.1""",
    "nothing_to_release": """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 2.1 1 release -
        3 2.1 1 notheld
        4 1.1 2 release -
        5 1.1 2 released 1.1
        6 1.1 3 release -
        7 1.1 3 notheld""",
    "restarted": """
        0 1.0 0 connected
        0 2.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        10 0.0 1 restart
        12 0.0 1 restarted
        13 2.1 1 acquire 0 0
        14 2.1 1 refused 0
        15 2.1 2 acquire 200 0
        16 1.1 2 count
        17 1.1 2 counted 0
        18 1.1 0 ended 1.1 revoked
        112 2.1 2 granted 2.1
        113 2.1 0 held 2.1 90
        114 1.1 3 release 1.1
        115 1.1 3 lost 1.1""",
    "restarted_and_taken_by_a_newcomer": """
        0 1.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        10 0.0 1 restart
        12 0.0 1 restarted
        14 3.0 0 connected
        15 3.1 1 acquire 0 0
        16 3.1 1 granted 3.1
        17 3.1 0 held 3.1 90
        18 1.1 0 held 1.1 80
        19 1.1 0 ended 1.1 revoked
        20 3.1 2 count
        21 3.1 2 counted 1
        22 3.1 3 release 3.1
        23 3.1 3 released 3.1""",
    "restarted_behind_what_was_granted": """
        0 1.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 2 acquire 0 0
        10 0.0 1 restart
        12 0.0 1 restarted
        14 1.1 2 granted 1.2
        15 1.1 0 held 1.2 80
        16 1.1 3 count
        17 1.1 3 counted 0""",
    "restarted_while_released": """
        0 1.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        9 1.1 2 release 1.1
        10 0.0 1 restart
        12 0.0 1 restarted
        20 1.1 2 released 1.1""",
    "restarted_before_it_was_noticed": """
        0 1.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        10 0.0 1 restart
        12 0.0 1 restarted
        13 1.1 0 held 1.1 85
        14 1.1 2 release 1.1
        40 1.1 2 released 1.1""",
    "restarted_and_acquired_again": """
        0 1.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 2 acquire 0 0
        4 1.1 2 granted 1.2
        5 1.1 0 held 1.1 93
        5 1.1 0 held 1.2 93
        10 0.0 1 restart
        12 0.0 1 restarted
        18 1.1 0 ended 1.1 revoked
        18 1.1 0 ended 1.2 revoked
        50 1.1 3 acquire 0 0
        51 1.1 3 granted 1.3
        52 1.1 4 count
        53 1.1 4 counted 1
        54 1.1 5 release 1.3
        55 1.1 5 released 1.3""",
    "restarted_and_forced": """
        0 1.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        10 0.0 1 restart
        12 0.0 1 restarted
        13 2.1 1 force
        14 2.1 1 forced 0
        18 1.1 0 ended 1.1 revoked""",
    "restarted_and_not_trusted": """
        0 1.0 0 connected
        10 0.0 1 restart
        12 0.0 1 restarted
        13 1.1 1 acquire 0 0
        14 1.1 1 refused 0""",
}

# With the rule that checker.py names.
BAD = {
    "two_owners": ("exclusion", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 2.1 1 acquire 50 0
        40 2.1 1 granted 2.1
        41 2.1 0 held 2.1 90
        50 1.1 2 release 1.1
        51 1.1 2 released 1.1"""),
    "two_owners_by_their_releases": ("order", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        3 2.1 1 acquire 50 0
        40 2.1 1 granted 2.1
        50 1.1 2 release 1.1
        51 1.1 2 released 1.1"""),
    "granted_while_the_killed_holder_is_valid": ("exclusion", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 2.1 1 acquire 200 0
        90 2.1 1 granted 2.1
        91 2.1 0 held 2.1 90"""),
    "granted_before_the_lease_ended": ("exclusion", """
        0 1.1 1 acquire 0 50
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 47
        3 2.1 1 acquire 200 0
        45 2.1 1 granted 2.1
        46 2.1 0 held 2.1 90
        60 1.1 0 ended 1.1 expired"""),
    "granted_before_the_release_without_an_answer": ("exclusion", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 2.1 1 acquire 0 0
        4 2.1 1 granted 2.1
        5 2.1 0 held 2.1 90
        10 1.1 2 release 1.1
        20 1.1 2 unknown 1.1 -12"""),
    "free_after_one_release_of_two": ("exclusion", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 2 acquire 0 0
        3 1.1 2 granted 1.2
        4 1.1 3 release 1.2
        5 1.1 3 released 1.2
        6 1.1 0 held 1.1 90
        7 2.1 1 acquire 0 0
        8 2.1 1 granted 2.1
        9 2.1 0 held 2.1 90"""),
    "forced_once_held_by_two_again": ("exclusion", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        3 3.1 1 force
        4 3.1 1 forced 1
        5 2.1 1 acquire 0 0
        6 2.1 1 granted 2.1
        7 2.1 0 held 2.1 90
        8 3.1 2 acquire 0 0
        9 3.1 2 granted 3.1
        10 3.1 0 held 3.1 90"""),
    "counted_twice": ("order", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 2 count
        3 1.1 2 counted 2"""),
    "resent_after_a_lost_reply": ("order", """
        0 1.1 1 acquire 0 0
        9 1.1 1 unknown -4
        10 1.1 2 acquire 0 0
        11 1.1 2 granted 1.1
        12 1.1 3 count
        13 1.1 3 counted 2"""),
    "reentry_not_counted": ("order", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 2 acquire 0 0
        3 1.1 2 granted 1.2
        4 1.1 0 held 1.1 90
        4 1.1 0 held 1.2 90
        5 1.1 3 count
        6 1.1 3 counted 1"""),
    "two_owners_counted": ("order", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 2.1 1 count
        3 2.1 1 counted 1"""),
    "counted_after_the_release": ("order", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 2 release 1.1
        3 1.1 2 released 1.1
        4 1.1 3 count
        5 1.1 3 counted 1"""),
    "released_by_who_never_held": ("release", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 2.1 1 release -
        3 2.1 1 released -"""),
    "released_by_another": ("release", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 2.1 1 release 1.1
        3 2.1 1 released 1.1"""),
    "holder_not_let_release": ("release", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 1.1 2 release -
        4 1.1 2 notheld"""),
    "held_after_it_was_lost": ("sticky", """
        0 1.1 1 acquire 0 50
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 47
        60 1.1 0 ended 1.1 expired
        61 1.1 0 held 1.1 40"""),
    "released_after_it_was_lost": ("sticky", """
        0 1.1 1 acquire 0 50
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 47
        60 1.1 0 ended 1.1 expired
        61 1.1 2 release 1.1
        62 1.1 2 released 1.1"""),
    "lost_before_its_time": ("loss", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 1.1 0 ended 1.1 revoked"""),
    "lost_by_its_release": ("loss", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 1.1 2 release 1.1
        4 1.1 2 lost 1.1"""),
    "renewed_after_it_was_forced_away": ("notice", """
        0 1.1 1 acquire 0 100
        1 1.1 1 granted 1.1
        2 3.1 1 force
        3 3.1 1 forced 1
        40 1.1 0 held 1.1 98"""),
    "refused_a_free_lock": ("refusal", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 2 release 1.1
        3 1.1 2 released 1.1
        4 2.1 1 acquire 0 0
        5 2.1 1 refused 0"""),
    "refused_the_own_lock": ("refusal", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 2 acquire 0 0
        3 1.1 2 refused 0"""),
    "forced_twice_by_one_call": ("order", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 3.1 1 force
        4 2.1 1 acquire 0 0
        5 2.1 1 granted 2.1
        6 2.1 0 held 2.1 90
        7 1.1 2 acquire 0 0
        8 1.1 2 granted 1.2
        9 3.1 1 unknown -12"""),
    "forced_and_counted_twice_again": ("order", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 3.1 1 force
        3 3.1 1 forced 1
        4 1.1 2 acquire 0 0
        5 1.1 2 granted 1.2
        6 1.1 3 count
        7 1.1 3 counted 2"""),
    "forced_and_still_counted": ("order", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 3.1 1 force
        3 3.1 1 forced 1
        4 1.1 2 count
        5 1.1 2 counted 1"""),
    "forced_nothing_though_held": ("order", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 0 held 1.1 90
        3 3.1 1 force
        4 3.1 1 forced 0"""),
    "forced_something_though_free": ("order", """
        0 1.1 1 acquire 0 0
        1 1.1 1 granted 1.1
        2 1.1 2 release 1.1
        3 1.1 2 released 1.1
        4 3.1 1 force
        5 3.1 1 forced 1"""),
    "restart_not_waited_out": ("exclusion", """
        0 1.0 0 connected
        0 2.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        10 0.0 1 restart
        12 0.0 1 restarted
        18 1.1 0 ended 1.1 revoked
        20 2.1 1 acquire 0 0
        21 2.1 1 granted 2.1
        22 2.1 0 held 2.1 90"""),
    "restart_waited_out_too_briefly": ("exclusion", """
        0 1.0 0 connected
        0 2.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        10 0.0 1 restart
        12 0.0 1 restarted
        13 2.1 1 acquire 200 0
        97 2.1 1 granted 2.1
        98 2.1 0 held 2.1 90"""),
    "restart_not_waited_out_after_a_force": ("exclusion", """
        0 1.0 0 connected
        0 2.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        10 0.0 1 restart
        12 0.0 1 restarted
        13 3.0 0 connected
        14 3.1 1 acquire 0 0
        15 3.1 1 granted 3.1
        16 2.1 1 force
        17 2.1 1 forced 1
        18 2.1 2 acquire 0 0
        19 2.1 2 granted 2.1
        20 2.1 0 held 2.1 70"""),
    "newcomer_no_more_at_the_next_restart": ("exclusion", """
        0 0.0 1 restart
        1 0.0 1 restarted
        2 1.0 0 connected
        3 2.0 0 connected
        4 1.1 1 acquire 0 0
        5 1.1 1 granted 1.1
        6 1.1 0 held 1.1 95
        10 0.0 2 restart
        12 0.0 2 restarted
        20 2.1 1 acquire 0 0
        21 2.1 1 granted 2.1
        22 2.1 0 held 2.1 90"""),
    "newcomer_beside_a_holder_on_the_same_server": ("exclusion", """
        0 1.0 0 connected
        1 0.0 1 restart
        2 0.0 1 restarted
        110 1.1 1 acquire 0 0
        111 1.1 1 granted 1.1
        112 1.1 0 held 1.1 95
        113 2.0 0 connected
        114 2.1 1 acquire 0 0
        115 2.1 1 granted 2.1
        116 2.1 0 held 2.1 90"""),
    "counted_though_the_server_was_restarted": ("order", """
        0 1.0 0 connected
        0 2.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        10 0.0 1 restart
        12 0.0 1 restarted
        16 1.1 2 count
        17 1.1 2 counted 1"""),
    "released_though_the_server_was_restarted": ("order", """
        0 1.0 0 connected
        1 1.1 1 acquire 0 9000
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 8900
        10 0.0 1 restart
        12 0.0 1 restarted
        4000 1.1 2 release 1.1
        4001 1.1 2 released 1.1"""),
    "renewed_though_the_server_was_restarted": ("notice", """
        0 1.0 0 connected
        0 2.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        10 0.0 1 restart
        12 0.0 1 restarted
        50 1.1 0 held 1.1 70"""),
    "lost_before_the_restart": ("loss", """
        0 1.0 0 connected
        1 1.1 1 acquire 0 0
        2 1.1 1 granted 1.1
        3 1.1 0 held 1.1 95
        5 1.1 0 ended 1.1 revoked
        10 0.0 1 restart
        12 0.0 1 restarted"""),
    "refused_long_after_a_restart": ("refusal", """
        0 2.0 0 connected
        10 0.0 1 restart
        12 0.0 1 restarted
        4000 2.1 1 acquire 0 0
        4001 2.1 1 refused 0"""),
}


def text(case):
    """The case as a history."""
    lines = ["# lease 100\n"]
    no_lock = ("connected", "restart", "restarted")
    for line in case.strip().splitlines():
        time, owner, rest = line.split(maxsplit=2)
        process = owner.split(".")[0]
        operation, what = rest.split(maxsplit=1)
        lock = "-" if what in no_lock else "a"
        lines.append(
            f"{int(time) * MS} {process} {owner} {lock} {operation} {what}\n")
    return "".join(lines)
