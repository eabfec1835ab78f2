package upstream

import (
	"errors"
	"time"
)

// relistRetry is when a list that failed is asked for again.
const relistRetry = time.Minute

// Why a wait ended without an answer. Those that are fatal end the life.
var (
	errTimeout = errors.New("no answer")
	errAlarm   = errors.New("alarm")
	errIdle    = errors.New("no call is under way")
	errChanged = errors.New("a list may have changed")

	errExited  = &fatalError{"exited"}
	errEOF     = &fatalError{"closed its output"}
	errRetired = &fatalError{"retired"}
)

// signals are what a life may wait for, beside its end; nil for never.
type signals struct {
	answer  <-chan reply
	changed <-chan struct{}
	idle    <-chan struct{}
	alarm   <-chan time.Time
}

// await waits for the first of s and returns it, as an error unless it is an
// answer. The end of the process, of its output and of its input, and an order
// to retire, are always waited for.
func (l *life) await(s signals) (reply, error) {
	select {
	case r := <-s.answer:
		return r, nil
	case <-s.changed:
		return reply{}, errChanged
	case <-s.idle:
		return reply{}, errIdle
	case <-s.alarm:
		return reply{}, errAlarm
	case <-l.orders:
		return reply{}, errRetired
	case <-l.child.Exited():
		return reply{}, errExited
	case <-l.ended:
		return reply{}, errEOF
	case err := <-l.conn.broken:
		return reply{}, &fatalError{writeFailure(err)}
	}
}

// ask sends a request of harness's own and waits for the answer until end.
func (l *life) ask(method string, params []byte, end time.Time) (reply, error) {
	answer, forget := l.conn.ask(method, params)
	defer forget()
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	r, err := l.await(signals{answer: answer, alarm: timer.C})
	if errors.Is(err, errAlarm) {
		err = errTimeout
	}
	return r, err
}

// attend brings the process up and looks after its lists until the life ends,
// and returns why it does.
func (l *life) attend() error {
	g, err := l.greet(l.launch.StartTimeout)
	if err != nil {
		return err
	}
	l.isUp = true
	l.unit.cameUp(l.id)
	var p pacer
	for {
		if err := l.offer(g, &p); err != nil {
			return err
		}
		if err := l.untilDue(&p); err != nil {
			return err
		}
		p.begin(time.Now())
	}
}

// offer lists what there is and reports the outcome to the unit. An error ends the
// life; a list that failed is tried again later, and what was offered before
// stays (MCP-3a).
func (l *life) offer(g greeting, p *pacer) error {
	s := newSurvey(g, l.unit.offers(l.id), l.launch.StartTimeout, l.maxMessage)
	return l.survey(s, func(f findings) {
		if f.failure != "" {
			p.retry(time.Now().Add(relistRetry))
		}
		l.unit.listing(l.id, f)
	})
}

// untilDue waits until the list is due again.
func (l *life) untilDue(p *pacer) error {
	for {
		wait, ok := p.wait(time.Now())
		if !ok {
			wait = never
		}
		timer := time.NewTimer(wait)
		_, err := l.await(signals{changed: l.conn.changed, alarm: timer.C})
		timer.Stop()
		switch {
		case errors.Is(err, errChanged):
			p.ask()
		case errors.Is(err, errAlarm):
			return nil
		default:
			return err
		}
	}
}
