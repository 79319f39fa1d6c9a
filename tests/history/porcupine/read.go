package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

const (
	never       = math.MaxInt64
	millisecond = 1000000
)

// A call is one operation of a process, with its answer.
type call struct {
	what   string // acquire, release, count, force
	owner  string
	args   []string
	begin  int64
	end    int64 // never: the process ended before, or the answer is "unknown"
	answer string
	words  []string
}

// What each call may be answered, beside "unknown".
var answers = map[string]string{
	"acquire": " granted refused ",
	"release": " released lost notheld ",
	"count":   " counted ",
	"force":   " forced ",
}

// A lease is one acquisition that was granted, and what its holder thought.
type lease struct {
	name      string
	grant     *call
	giving    *call // the release
	believed  int64 // until when the holder may act, as far as it was heard
	lastHeld  int64
	firstLost int64 // never: not heard of
	lossHeard int64 // what was believed at that time
}

// A restart is a time at which the server lost its memory.
type restart struct {
	begin, end int64 // end: never, as long as it is under way
}

// server is what befalls all locks.
type server struct {
	restarts  []*restart          // one after the other
	current   map[string]*restart // by process and number, while under way
	connected map[string]int64    // processes, since when
}

type lock struct {
	server  *server
	name    string
	calls   []*call
	leases  map[string]*lease
	order   []*lease
	longest int64 // lease asked for
}

// readHistory returns what happened, for each lock.
func readHistory(from io.Reader) (map[string]*lock, error) {
	locks := map[string]*lock{}
	pending := map[string]*call{}
	s := &server{current: map[string]*restart{}, connected: map[string]int64{}}
	var longest int64
	scanner := bufio.NewScanner(from)
	for scanner.Scan() {
		text := scanner.Text()
		words := strings.Fields(text)
		if len(words) == 3 && words[0] == "#" && words[1] == "lease" {
			longest = milliseconds(words[2])
		}
		if text == "" || text[0] == '#' {
			continue
		}
		if len(words) < 6 {
			return nil, fmt.Errorf("not understood: %s", text)
		}
		at, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return nil, err
		}
		if words[3] == "-" {
			if err = s.take(at, words); err != nil {
				return nil, fmt.Errorf("%v: %s", err, text)
			}
			continue
		}
		l := locks[words[3]]
		if l == nil {
			l = &lock{server: s, name: words[3], leases: map[string]*lease{}}
			locks[words[3]] = l
		}
		if words[4] == "0" {
			err = l.observe(at, words[5], words[6:])
		} else {
			err = l.take(pending, at, words)
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %s", err, text)
		}
	}
	for _, l := range locks {
		l.longest = longest
		for _, c := range l.calls {
			if c.what == "acquire" {
				l.longest = max(l.longest, milliseconds(c.args[1]))
			}
		}
	}
	for _, c := range pending {
		locks[lockOf(locks, c)].giveAll(c)
	}
	return locks, scanner.Err()
}

// take notes what is no lock's.
func (s *server) take(at int64, words []string) error {
	key := words[1] + " " + words[4]
	switch {
	case len(words) != 6:
		return fmt.Errorf("too many words")
	case words[5] == "connected":
		if _, known := s.connected[words[1]]; !known {
			s.connected[words[1]] = at
		}
	case words[5] == "restart":
		r := &restart{begin: at, end: never}
		s.current[key] = r
		s.restarts = append(s.restarts, r)
	case words[5] == "restarted" && s.current[key] != nil:
		s.current[key].end = at
		delete(s.current, key)
	default:
		return fmt.Errorf("nothing that befalls a server")
	}
	return nil
}

// unknownTo counts the restarts that a process knows nothing of, for it was not
// connected before.
func (s *server) unknownTo(process string) int {
	since, known := s.connected[process]
	count := 0
	for known && count < len(s.restarts) && s.restarts[count].begin < since {
		count++
	}
	return count
}

// restartedWithin: whether a restart was under way at some time of those.
func (s *server) restartedWithin(begin, end int64) bool {
	for _, r := range s.restarts {
		if r.begin <= end && r.end >= begin {
			return true
		}
	}
	return false
}

func milliseconds(word string) int64 {
	n, _ := strconv.ParseInt(word, 10, 64)
	return n * millisecond
}

func lockOf(locks map[string]*lock, wanted *call) string {
	for name, l := range locks {
		for _, c := range l.calls {
			if c == wanted {
				return name
			}
		}
	}
	return ""
}

func (l *lock) observe(at int64, what string, words []string) error {
	if len(words) != 2 || l.leases[words[0]] == nil {
		return fmt.Errorf("no such lease")
	}
	k := l.leases[words[0]]
	switch what {
	case "held":
		more, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return err
		}
		k.lastHeld = max(k.lastHeld, at)
		k.believed = max(k.believed, at+more*millisecond)
	case "ended":
		k.lose(at)
	default:
		return fmt.Errorf("no observation")
	}
	return nil
}

func (k *lease) lose(at int64) {
	if at < k.firstLost {
		k.firstLost = at
		k.lossHeard = k.believed
	}
}

// take begins a call, or ends the one that is under way.
func (l *lock) take(pending map[string]*call, at int64, words []string) error {
	key := words[1] + " " + words[4]
	c := pending[key]
	if c == nil {
		if answers[words[5]] == "" {
			return fmt.Errorf("no such call")
		}
		c = &call{what: words[5], owner: words[2], args: words[6:], begin: at,
			end: never}
		pending[key] = c
		l.calls = append(l.calls, c)
		return nil
	}
	delete(pending, key)
	if !strings.Contains(answers[c.what]+" unknown ", " "+words[5]+" ") {
		return fmt.Errorf("no answer to %s", c.what)
	}
	c.answer, c.words = words[5], words[6:]
	if c.answer != "unknown" {
		c.end = at
	}
	switch {
	case c.answer == "granted":
		k := &lease{name: c.words[0], grant: c, firstLost: never}
		l.leases[k.name] = k
		l.order = append(l.order, k)
	case c.what == "release":
		l.give(c, at)
	}
	return nil
}

// give notes which lease a release was of.
func (l *lock) give(c *call, at int64) {
	if c.answer == "unknown" && c.words[0] == "-" {
		l.giveAll(c)
	}
	if len(c.words) == 0 {
		return
	}
	k := l.leases[c.words[0]]
	if k == nil || k.grant.owner != c.owner {
		return
	}
	if k.giving == nil || k.giving.answer != "released" {
		k.giving = c
	}
	if c.answer == "lost" {
		k.lose(at)
	}
}

// giveAll notes a release without an answer: it may have been of any lease that
// its owner had, if it does not say of which.
func (l *lock) giveAll(c *call) {
	if c.what != "release" {
		return
	}
	for _, k := range l.leases {
		named := c.args[0] == "-" || c.args[0] == k.name
		if named && k.grant.owner == c.owner && k.giving == nil {
			k.giving = c
		}
	}
}

func max(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

func min(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}
