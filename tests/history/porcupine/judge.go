package main

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	patience = 60 * time.Second
	// How long an unclear outcome may show.
	unclear = 5000 * millisecond
	lapsed  = 3000 * millisecond
	// How long a restart may go unnoticed.
	unnoticed = 3000 * millisecond
)

type objection struct {
	text      string
	undecided bool
}

// judge says what cannot be, lock by lock.
func judge(locks map[string]*lock) []objection {
	var found []objection
	for _, name := range names(locks) {
		l := locks[name]
		for _, text := range l.plain() {
			found = append(found, objection{text: name + ": " + text})
		}
		switch porcupine.CheckOperationsTimeout(model, l.operations(), patience) {
		case porcupine.Illegal:
			found = append(found, objection{text: name + ": not linearizable"})
		case porcupine.Unknown:
			found = append(found, objection{name + ": no verdict in time", true})
		}
	}
	return found
}

func names(locks map[string]*lock) []string {
	var all []string
	for name := range locks {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

// -------------------------------------------------- what needs no search

func (l *lock) plain() []string {
	var found []string
	for _, k := range l.order {
		if k.lastHeld > k.firstLost {
			found = append(found, k.name+" is held after it was lost")
		}
		if k.returned() && k.giving.begin > k.firstLost {
			found = append(found, k.name+" is released after it was lost")
		}
		if k.firstLost < k.lossHeard && !l.forcedBy(k, k.firstLost) &&
			!l.server.restartedWithin(k.grant.begin, k.firstLost) {
			found = append(found, k.name+" is lost before its time")
		}
		if l.revived(k) {
			found = append(found, k.name+" is renewed after it was taken away")
		}
	}
	for _, c := range l.calls {
		if c.what != "release" {
			continue
		}
		if c.answer == "released" && !l.owns(c) {
			found = append(found, c.owner+" releases what it does not hold")
		}
		if c.answer == "notheld" && l.surelyHeld(c) {
			found = append(found, c.owner+" cannot release what it holds")
		}
	}
	return found
}

func (k *lease) returned() bool {
	return k.giving != nil && k.giving.answer == "released"
}

// forcedBy: whether the lease may have been forced away by that time.
func (l *lock) forcedBy(k *lease, at int64) bool {
	for _, c := range l.calls {
		deleted := c.what == "force" &&
			(c.answer != "forced" || c.words[0] == "1")
		if deleted && c.end >= k.grant.begin && c.begin <= at {
			return true
		}
	}
	return false
}

// revived: renewed by a request that was sent after a forced release had
// returned, or after the server had lost its memory.
func (l *lock) revived(k *lease) bool {
	for _, r := range l.server.restarts {
		if k.grant.end < r.begin && r.end < never &&
			k.believed > r.end+l.longest {
			return true
		}
	}
	for _, c := range l.calls {
		if c.what == "force" && c.answer == "forced" && c.words[0] == "1" &&
			k.grant.end < c.begin && k.believed > c.end+l.longest {
			return true
		}
	}
	return false
}

func (l *lock) owns(c *call) bool {
	k := l.leases[c.words[0]]
	return k != nil && k.grant.owner == c.owner
}

func (l *lock) surelyHeld(c *call) bool {
	for _, k := range l.order {
		if k.grant.owner == c.owner && k.giving == nil && k.firstLost == never &&
			k.grant.end < c.begin && k.believed > c.end &&
			!l.server.restartedWithin(k.grant.begin, c.end) {
			return true
		}
	}
	return false
}

// -------------------------------------------------- what the search gets

// step is what Porcupine orders. Besides the calls there is the end of each
// lease that was not given back for certain: any time from when its holder
// could no longer act.
type step struct {
	what  string // acquire, release, lapse, count, force, refused, restart
	owner string
	lease string
	value int  // of count and force; of restart, which one
	slack int  // by how much count may say more
	fresh int  // of acquire: so many restarts were before its client was
	loose bool // of force and release: may find something, or nothing
}

func (l *lock) operations() []porcupine.Operation {
	var all []porcupine.Operation
	add := func(begin, end int64, s step) {
		all = append(all, porcupine.Operation{Input: s, Call: begin, Return: end})
	}
	for _, c := range l.calls {
		s, matters := l.stepOf(c)
		if matters {
			add(c.begin, c.end, s)
		}
	}
	for i, r := range l.server.restarts {
		add(r.begin, r.end, step{what: "restart", value: i})
	}
	for _, k := range l.order {
		if !k.returned() {
			add(k.lapse(), never, step{what: "lapse", owner: k.grant.owner,
				lease: k.name})
		}
	}
	return all
}

// lapse is the earliest time at which the server may have forgotten a lease
// that was not given back for certain.
func (k *lease) lapse() int64 {
	from := max(k.believed, k.grant.begin)
	if k.giving != nil {
		from = min(from, k.giving.begin)
	}
	return from
}

func (l *lock) stepOf(c *call) (step, bool) {
	s := step{what: c.what, owner: c.owner}
	switch c.answer {
	case "granted":
		s.lease = c.words[0]
		s.fresh = l.server.unknownTo(strings.Split(c.owner, ".")[0])
	case "released":
		s.lease = c.words[0]
		// Perhaps it was said first to a server that was no more.
		s.loose = l.server.restartedWithin(c.begin-unnoticed, c.end)
		return s, l.owns(c)
	case "counted":
		s.value, _ = strconv.Atoi(c.words[0])
		s.slack = l.slack(c)
	case "forced":
		s.value, _ = strconv.Atoi(c.words[0])
		s.loose = l.anotherMayHold(c, "")
	case "refused":
		s.what = "refused"
		return s, !l.anotherMayHold(c, c.owner) &&
			!l.server.restartedWithin(c.begin-unnoticed-l.longest, c.end)
	default:
		s.value = -1
		return s, c.what == "force"
	}
	return s, true
}

// slack: what the server may list of an owner beyond the leases that it knows
// of.
func (l *lock) slack(asked *call) int {
	doubtful := 0
	for _, c := range l.calls {
		if c == asked {
			break
		}
		if c.what != "acquire" || c.owner != asked.owner {
			continue
		}
		doubtful = 1
		if c.answer == "granted" || c.answer == "refused" && c.args[0] == "0" {
			doubtful = 0
		}
	}
	return doubtful
}

// anotherMayHold: whether an acquisition or a lease of unclear end may have
// filled the lock at the time of a call. What is clear is left to the search.
func (l *lock) anotherMayHold(asked *call, owner string) bool {
	for _, c := range l.calls {
		if c.what != "acquire" || c.owner == owner || c.begin > asked.end {
			continue
		}
		var end int64
		switch {
		case c.answer == "granted":
			k := l.leases[c.words[0]]
			switch {
			case k.returned():
				continue
			case k.firstLost < never:
				end = max(k.firstLost, k.believed) + lapsed
			case k.giving != nil:
				end = max(k.giving.begin, k.believed) + unclear
			default:
				end = max(k.believed, c.begin) + unclear
			}
		case c.answer == "refused" && c.args[0] == "0":
			continue
		default:
			end = c.begin + unclear
		}
		if end >= asked.begin {
			return true
		}
	}
	return false
}

// ------------------------------------------------------------- the model

// state is what the server lists: one owner's leases, and those that a forced
// release took away from owners who have not ended them yet. Lists of names, each
// with a comma behind it. What a restart took away is listed as the restart's
// number, the owner and the name, with slashes between: it still keeps all others
// off, but who connected only after that restart.
type state struct {
	owner     string
	leases    string
	forced    string
	forgotten string
}

func has(list, name string) bool {
	return strings.Contains(","+list, ","+name+",")
}

func without(list, name string) string {
	return strings.Replace(","+list, ","+name+",", ",", 1)[1:]
}

// barred: whether a lease that a restart took from another, and that has not
// ended yet, forbids this acquisition.
func (s state) barred(in step) bool {
	for _, entry := range split(s.forgotten) {
		parts := strings.Split(entry, "/")
		which, _ := strconv.Atoi(parts[0])
		if parts[1] != in.owner && which >= in.fresh {
			return true
		}
	}
	return false
}

// entryOf is a lease as it stands among the forgotten; "" if it does not.
func (s state) entryOf(name string) string {
	for _, entry := range split(s.forgotten) {
		if strings.HasSuffix(entry, "/"+name) {
			return entry
		}
	}
	return ""
}

func (s state) remove(name string) state {
	s.leases = without(s.leases, name)
	if s.leases == "" {
		s.owner = ""
	}
	return s
}

var model = porcupine.Model{
	Init: func() interface{} { return state{} },
	Step: func(before, input, _ interface{}) (bool, interface{}) {
		return next(before.(state), input.(step))
	},
}

func next(s state, in step) (bool, state) {
	switch in.what {
	case "acquire":
		if s.owner != "" && s.owner != in.owner || s.barred(in) {
			return false, s
		}
		s.owner = in.owner
		s.leases = sorted(s.leases + in.lease + ",")
		return true, s
	case "release", "lapse":
		if has(s.leases, in.lease) {
			return true, s.remove(in.lease)
		}
		if entry := s.entryOf(in.lease); entry != "" {
			s.forgotten = without(s.forgotten, entry)
			return in.what == "lapse" || in.loose, s
		}
		gone := has(s.forced, in.lease)
		s.forced = without(s.forced, in.lease)
		return gone, s
	case "count":
		holds := 0
		if s.owner == in.owner {
			holds = strings.Count(s.leases, ",")
		}
		return holds <= in.value && in.value <= holds+in.slack, s
	case "refused":
		return s.owner != "" && s.owner != in.owner, s
	case "restart":
		return true, forget(s, in.value)
	}
	return force(s, in)
}

// force deletes the lock; value -1 is one without an answer.
func force(s state, in step) (bool, state) {
	if in.value == 0 && s.owner != "" ||
		in.value == 1 && s.owner == "" && !in.loose {
		return false, s
	}
	return true, state{forced: sorted(s.forced + s.leases),
		forgotten: s.forgotten}
}

// forget is a restart.
func forget(s state, which int) state {
	after := state{forced: s.forced, forgotten: s.forgotten}
	for _, name := range split(s.leases) {
		after.forgotten += strconv.Itoa(which) + "/" + s.owner + "/" + name + ","
	}
	after.forgotten = sorted(after.forgotten)
	return after
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// Equal states must be written equally.
func sorted(list string) string {
	all := split(list)
	if len(all) == 0 {
		return ""
	}
	sort.Strings(all)
	return strings.Join(all, ",") + ","
}
