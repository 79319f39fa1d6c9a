/* Watches over the command while the lock is held.
 *
 * The command must be gone before the lease can pass to another holder, even
 * if the server never answers again. So it is told early:
 *
 *     deadline            until then the library vouches for the lease
 *     kill_at             deadline - margin: SIGKILL
 *     term_at             kill_at - kill_after: SIGTERM, unless renewed before
 *
 * The deadline moves with each renewal; it is read again whenever half of what
 * was left has passed. Once the command was told of a loss there is no way
 * back, also if a renewal succeeds after all. The guard has the same deadline,
 * half a margin later, for the case that this process does not run. */
#include "cli/supervise.h"

#include "cli/child.h"
#include "cli/duration.h"
#include "cli/exit_codes.h"
#include "cli/holding.h"
#include "cli/report.h"
#include "cli/text.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_AFTER_DEFAULT_MS 5000
/* How often to look whether a group without its leader is gone. */
#define GROUP_POLL_MS 10

enum phase {
    PHASE_HELD,
    PHASE_ENDING, /* SIGTERM was sent, SIGKILL comes at kill_at */
    PHASE_KILLED, /* SIGKILL was sent */
    PHASE_TOLD    /* lost; --on-lost wants no more than was done */
};

typedef struct supervisor {
    const watched *w;
    enum phase phase;
    int64_t margin;
    int64_t kill_after;
    int64_t deadline; /* last one known; kept when the lease is lost */
    int64_t kill_at;
    bool stop_wanted; /* SIGTSTP came, the command has not stopped yet */
    bool stopped;     /* the command, and it was not continued */
    bool ended;       /* the command, its status is `status` */
    int status;
} supervisor;

int64_t lease_of(const cli_options *options)
{
    if (options->lease_ms != UNSET) {
        return options->lease_ms;
    }
    return options->ttl_ms != UNSET ? options->ttl_ms : TTL_DEFAULT_MS;
}

int64_t kill_after_of(const cli_options *options)
{
    int64_t third = lease_of(options) / 3;
    if (options->kill_after_ms != UNSET) {
        return options->kill_after_ms;
    }
    if (options->max_hold_ms != UNSET && options->max_hold_ms / 3 < third) {
        third = options->max_hold_ms / 3;
    }
    return third < KILL_AFTER_DEFAULT_MS ? third : KILL_AFTER_DEFAULT_MS;
}

/* For the time between a signal's sending and the last process's end: 50 ms or
 * a hundredth of the lease, but no more than half a second or a tenth. */
static int64_t margin_of(const cli_options *options)
{
    int64_t lease = lease_of(options);
    if (options->max_hold_ms != UNSET && options->max_hold_ms < lease) {
        lease = options->max_hold_ms;
    }
    int64_t margin = lease / 100 > 50 ? lease / 100 : 50;
    margin = margin < 500 ? margin : 500;
    return margin < lease / 10 ? margin : lease / 10;
}

/* ---- time */

/* Reads the deadline anew. False when the lease is lost. */
static bool refresh(supervisor *s)
{
    int64_t now = clock_ms();
    int64_t remaining = hf_lease_remaining_ms(s->w->lease);
    if (remaining <= 0) {
        return false;
    }
    int64_t deadline = now + remaining;
    if (deadline > s->w->hold_end) {
        deadline = s->w->hold_end;
    }
    if (deadline != s->deadline) {
        s->deadline = deadline;
        s->kill_at = deadline - s->margin;
        if (s->w->options->on_lost.action == LOST_KILL) {
            guard_set_deadline(s->w->guard, deadline - s->margin / 2);
        }
    }
    return deadline > now;
}

static int64_t next_due(const supervisor *s)
{
    int64_t now = clock_ms();
    switch (s->phase) {
    case PHASE_HELD: {
        int64_t term_at = s->kill_at - s->kill_after;
        int64_t half = now + (s->deadline - now) / 2;
        return term_at > now && term_at < half ? term_at : half;
    }
    case PHASE_ENDING:
        return s->ended ? now + GROUP_POLL_MS : s->kill_at;
    case PHASE_KILLED:
    case PHASE_TOLD:
        break;
    }
    return INT64_MAX;
}

static void arm(int timer, int64_t due)
{
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (due != INT64_MAX) {
        when.it_value.tv_sec = (time_t)(due / 1000);
        when.it_value.tv_nsec = (long)(due % 1000) * 1000000;
    }
    (void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* ---- loss */

static const char *reason(const supervisor *s)
{
    switch (hf_lease_loss(s->w->lease)) {
    case HF_LOSS_REVOKED:
        return "the server no longer lists this owner";
    case HF_LOSS_MAX_HOLD:
        return "--max-hold has passed";
    case HF_LOSS_EXPIRED:
    case HF_LOSS_NONE:
        break;
    }
    /* The library counts from a little earlier than hold_end does, and takes
     * the clocks' difference off. */
    if (s->deadline >= s->w->hold_end - s->kill_after - s->margin) {
        return "--max-hold has passed";
    }
    return s->w->options->lease_ms != UNSET
               ? "--lease has ended"
               : "its lease could not be renewed in time";
}

static void say_lost(const supervisor *s, const char *what)
{
    char names[QUOTE_SIZE];
    const cli_options *o = s->w->options;
    say("lost the %s %s: %s; %s", holding_noun(o),
        text_quote_names(names, sizeof(names), o->operands, o->operand_count),
        reason(s), what);
}

static void kill_command(supervisor *s)
{
    child_signal(s->w->group, SIGKILL);
    s->phase = PHASE_KILLED;
}

/* Told at once of a loss (a deleted key), the command still gets its time to
 * clean up, but never beyond the deadline that was known. */
static void end_command(supervisor *s)
{
    int64_t now = clock_ms();
    if (now + s->kill_after < s->kill_at) {
        s->kill_at = now + s->kill_after;
    }
    if (s->kill_at <= now) {
        say_lost(s, "killing the command");
        kill_command(s);
        return;
    }
    guard_set_deadline(s->w->guard, s->kill_at + s->margin / 2);
    child_signal(s->w->group, SIGTERM);
    child_signal(s->w->group, SIGCONT); /* a stopped one could not obey */
    s->phase = PHASE_ENDING;
    say_lost(s, "ending the command");
}

static void on_loss(supervisor *s)
{
    const lost_rule *rule = &s->w->options->on_lost;
    switch (rule->action) {
    case LOST_KILL:
        end_command(s);
        return;
    case LOST_SIGNAL:
        child_signal(s->w->group, rule->signal);
        say_lost(s, "sent the signal of --on-lost to the command");
        break;
    case LOST_IGNORE:
        say_lost(s, "the command goes on (--on-lost ignore)");
        break;
    }
    s->phase = PHASE_TOLD;
}

static void tick(supervisor *s)
{
    bool held;
    switch (s->phase) {
    case PHASE_HELD:
        held = refresh(s);
        if (held && s->w->options->on_lost.action != LOST_IGNORE) {
            held = clock_ms() < s->kill_at - s->kill_after;
        }
        if (!held && !s->ended) {
            on_loss(s);
        }
        break;
    case PHASE_ENDING:
        if (clock_ms() >= s->kill_at) {
            kill_command(s);
        }
        break;
    case PHASE_KILLED:
    case PHASE_TOLD:
        break;
    }
}

/* ---- the command's stops */

static void continue_command(supervisor *s)
{
    s->stopped = false;
    child_signal(s->w->group, SIGCONT);
}

static void hand_over(supervisor *s)
{
    terminal_give(s->w->terminal, s->w->group);
    continue_command(s);
}

/* The job is stopped as a whole: the runner stops like its command, the shell
 * sees it and takes the terminal. Without a controlling terminal there is no
 * job control, and the command's stop is its own affair. */
static void stop_with_command(supervisor *s, int number)
{
    terminal *t = s->w->terminal;
    /* Handed over, the stop reached the command alone, where it was meant for
     * all of the job. */
    bool whole_group = t->handed;
    bool by_key = number == SIGTSTP;
    if (t->fd < 0) {
        return;
    }
    if (number == SIGSTOP) {
        number = SIGTSTP; /* which the kernel ignores where none can resume */
    }
    terminal_take(t);
    if (signals_stop(number, whole_group)) {
        return; /* SIGCONT is pending: on_continue */
    }
    s->stop_wanted = false;
    if (by_key && whole_group) {
        hand_over(s);
    } else if (by_key) {
        continue_command(s); /* as if all had ignored Ctrl-Z */
    }
}

static void on_stop(supervisor *s, int number)
{
    if (s->phase == PHASE_ENDING) {
        continue_command(s);
        return;
    }
    /* While the job is being stopped, its terminal is about to be the
     * shell's: then a command that asks for it has to wait. */
    bool stopping = s->stop_wanted || signals_pending(SIGTSTP);
    bool asks = number == SIGTTIN || number == SIGTTOU;
    if (asks && !stopping && terminal_is_ours(s->w->terminal)) {
        hand_over(s);
        return;
    }
    stop_with_command(s, stopping ? SIGTSTP : number);
}

/* The lease may have ended while the runner was stopped: look first. */
static void on_continue(supervisor *s)
{
    s->stop_wanted = false;
    tick(s);
    if (s->phase == PHASE_KILLED || s->ended) {
        return;
    }
    if (s->w->terminal->eager && terminal_is_ours(s->w->terminal)) {
        terminal_give(s->w->terminal, s->w->group);
    }
    continue_command(s);
}

static void look_at_command(supervisor *s)
{
    int status;
    while (!s->ended &&
           waitpid(s->w->group, &status, WNOHANG | WUNTRACED) > 0) {
        if (WIFSTOPPED(status)) {
            s->stopped = true;
            on_stop(s, WSTOPSIG(status));
        } else {
            s->ended = true;
            s->status = status;
        }
    }
}

static void forward(supervisor *s, int number)
{
    child_signal(s->w->group, number);
    if (number != SIGTSTP) {
        return;
    }
    s->stop_wanted = true;
    if (s->stopped) {
        /* Stopped again before it was continued: no news will come of it. */
        stop_with_command(s, number);
    }
}

static void read_signals(supervisor *s)
{
    for (int number; (number = signals_next(s->w->signals)) != 0;) {
        if (number == SIGCONT) {
            on_continue(s);
        } else if (number != SIGCHLD && !s->ended) {
            forward(s, number);
        }
    }
    look_at_command(s);
}

/* ---- the loop */

/* Told of a loss, the whole group must go; children that outlive their leader
 * get the rest of its time. */
static bool is_over(const supervisor *s)
{
    return s->ended &&
           (s->phase != PHASE_ENDING || child_group_is_empty(s->w->group));
}

static void loop(supervisor *s, int timer, int lease_fd)
{
    struct pollfd fds[] = {{s->w->signals->fd, POLLIN, 0},
                           {timer, POLLIN, 0},
                           {lease_fd, POLLIN, 0}};
    tick(s);
    while (!is_over(s)) {
        arm(timer, next_due(s));
        /* It stays readable, so once seen it must not be polled. */
        fds[2].fd = s->phase == PHASE_HELD ? lease_fd : -1;
        (void)poll(fds, 3, -1);
        read_signals(s);
        tick(s);
    }
}

static int command_code(int status)
{
    return WIFSIGNALED(status) ? CLI_SIGNAL_BASE + WTERMSIG(status)
                               : WEXITSTATUS(status);
}

/* A server that did not answer renewals would only delay the exit; the little
 * that is left of the lease ends by itself. One that has answered after all,
 * or a limit of our own, leaves something to give back. */
static bool is_worth_releasing(const supervisor *s, bool lost)
{
    const cli_options *o = s->w->options;
    if (!lost) {
        return true;
    }
    int64_t remaining = hf_lease_remaining_ms(s->w->lease);
    return remaining > s->kill_after + s->margin ||
           (remaining > 0 && (o->lease_ms != UNSET || o->max_hold_ms != UNSET));
}

static verdict conclude(const supervisor *s)
{
    bool lost = s->phase != PHASE_HELD;
    bool counts = lost && s->w->options->on_lost.action != LOST_IGNORE;
    return (verdict){
        .code = counts ? CLI_LOST : command_code(s->status),
        .lost = lost,
        .release = is_worth_releasing(s, lost),
    };
}

verdict supervise(const watched *w)
{
    hf_error err = HF_ERROR_INIT;
    supervisor s = {
        .w = w,
        .margin = margin_of(w->options),
        .kill_after = kill_after_of(w->options),
    };
    int lease_fd = hf_lease_fd(w->lease, &err);
    int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (lease_fd < 0 || timer < 0) {
        say("cannot watch the lock, so the command is ended: %s",
            lease_fd < 0 ? hf_error_text(&err) : strerror(errno));
        kill_command(&s);
    }
    loop(&s, timer, lease_fd);
    if (timer >= 0) {
        (void)close(timer);
    }
    terminal_take(w->terminal);
    return conclude(&s);
}
