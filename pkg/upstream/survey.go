package upstream

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"harness/pkg/wire"
)

// maxPages bounds one listing, against a server that never ends it.
const maxPages = 1000

// listPatience is how long what has come waits for lists that have not: a
// session sees one change of an upstream that answers at once, and the tools of
// one that answers for its prompts never (MCP-3a, LIF-5).
const listPatience = time.Second

// inquiry is one list that is asked for, page by page.
type inquiry struct {
	collected
	timeout time.Duration // of each page
	most    int64         // bytes of all pages together

	id    string    // of the request under way, "" for none
	end   time.Time // when that counts as not answered
	pages int
	size  int64
	seen  map[string]bool // cursors
	err   error           // why there is no more of it
}

// take adds the page in an answer, and returns the params to ask for the next
// one with; nil when that was the last.
func (q *inquiry) take(r *reply) (params []byte) {
	p, err := q.read(r)
	if err != nil {
		q.err = err
		return nil
	}
	q.add(p.items)
	q.pages++
	q.size += int64(len(r.line))
	switch {
	case p.next == nil:
		return nil
	case q.seen[string(p.next)]:
		q.err = fmt.Errorf("%s: a cursor came twice", q.method)
	case q.size > q.most:
		q.err = fmt.Errorf("%s: the pages together are longer than max_message", q.method)
	case q.pages == maxPages:
		q.err = fmt.Errorf("%s: more than %d pages", q.method, maxPages)
	default:
		q.seen[string(p.next)] = true
		return append(append([]byte(`{"cursor":`), p.next...), '}')
	}
	return nil
}

// read takes the answer to the request for one page apart. That a method is not
// there, of a server that announced more than it has, is an empty list; of the
// tools it is a fault: they are what a server is for.
func (q *inquiry) read(r *reply) (page, error) {
	if message, refused := r.refusal(); refused {
		if q.member != "tools" && r.code() == wire.MethodNotFound {
			return page{}, nil
		}
		return page{}, fmt.Errorf("%s was refused: %s", q.method, message)
	}
	p, err := q.parsePage(r.m.Result.In(r.line))
	if err != nil {
		return page{}, fmt.Errorf("%s: %w", q.method, err)
	}
	return p, nil
}

// findings are what a survey has come to.
type findings struct {
	// offer has, of each list that is not complete, what was offered earlier, or
	// else what did come of it.
	offer *Offer
	// tools is set where those are complete.
	tools bool
	// over is set where nothing more is to come.
	over bool
	// failure says why a list is not complete although the survey is over.
	failure string
}

// survey is one look at everything that an upstream lists.
type survey struct {
	g         greeting
	earlier   *Offer // nil for none
	inquiries []*inquiry
}

func newSurvey(g greeting, earlier *Offer, timeout time.Duration, most int64) *survey {
	s := &survey{g: g, earlier: earlier}
	for _, of := range lists() {
		if g.announced[of.member] {
			s.inquiries = append(s.inquiries, &inquiry{collected: collected{list: of}, timeout: timeout, most: most, seen: map[string]bool{}})
		}
	}
	return s
}

// open returns the inquiries that wait for an answer.
func (s *survey) open() []*inquiry {
	var open []*inquiry
	for _, q := range s.inquiries {
		if q.id != "" {
			open = append(open, q)
		}
	}
	return open
}

// findings returns what has come so far.
func (s *survey) findings() findings {
	o := Offer{Instructions: s.g.instructions, Can: s.g.can}
	f := findings{tools: true, over: true}
	var failures []string
	for _, q := range s.inquiries {
		complete := q.id == "" && q.err == nil
		f.over = f.over && q.id == ""
		f.tools = f.tools && (complete || q.member != "tools")
		if q.err != nil {
			failures = append(failures, q.err.Error())
		}
		*q.in(&o) = q.items
		if !complete && s.earlier != nil {
			*q.in(&o) = *q.in(s.earlier)
		}
	}
	if f.over {
		f.failure = strings.Join(failures, "; ")
	}
	f.offer = o.sealed()
	return f
}

// survey asks for all lists at once and reports what they come to: together,
// where that does not take long, else as it comes. An error ends the life.
func (l *life) survey(s *survey, report func(findings)) error {
	answers := make(chan reply, len(s.inquiries))
	patience := time.Now().Add(listPatience)
	for _, q := range s.inquiries {
		l.inquire(q, answers, []byte("{}"))
	}
	reported := len(s.inquiries) // how many were open at the last report
	for open := s.open(); len(open) > 0; open = s.open() {
		patient := time.Now().Before(patience)
		if !patient && len(open) < reported {
			reported = len(open)
			report(s.findings())
		}
		due := open[0].end
		for _, q := range open {
			due = earlier(due, q.end)
		}
		if patient {
			due = earlier(due, patience)
		}
		timer := time.NewTimer(time.Until(due))
		r, err := l.await(signals{answer: answers, alarm: timer.C})
		timer.Stop()
		switch {
		case err == nil:
			l.answered(open, &r, answers)
		case errors.Is(err, errAlarm):
			l.expire(open)
		default:
			return err // and with it the connection that holds the requests
		}
	}
	for _, q := range s.inquiries {
		l.reportOdd(q.odd)
	}
	report(s.findings())
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// inquire asks for a page.
func (l *life) inquire(q *inquiry, to chan<- reply, params []byte) {
	q.end = time.Now().Add(q.timeout)
	q.id = l.conn.send(to, q.method, params)
}

// answered takes an answer and asks for what is next.
func (l *life) answered(open []*inquiry, r *reply, to chan<- reply) {
	for _, q := range open {
		if q.id != r.id {
			continue
		}
		q.id = ""
		if params := q.take(r); params != nil {
			l.inquire(q, to, params)
		}
	}
}

// expire ends the inquiries whose time is over.
func (l *life) expire(open []*inquiry) {
	for _, q := range open {
		if time.Now().Before(q.end) {
			continue
		}
		l.conn.forget(q.id)
		q.id, q.err = "", fmt.Errorf("no answer to %s within %s", q.method, q.timeout)
	}
}

// reportOdd warns about what was left out of a list.
func (l *life) reportOdd(odd []string) {
	for i, why := range odd {
		if i == 5 {
			l.log().Warn("more was left out", "count", len(odd)-i)
			return
		}
		l.log().Warn("left out of a list", "reason", quoted(why))
	}
}
