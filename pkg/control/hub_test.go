package control

import (
	"strconv"
	"sync"
	"testing"
)

func TestHub_GivesEveryReaderEverythingInOrder(t *testing.T) {
	t.Parallel()
	var hub Hub
	early, late := hub.Subscribe(), (*Subscription)(nil)
	const many = backlog / 2
	for n := range many {
		if n == many/2 {
			late = hub.Subscribe()
		}
		hub.Publish(Event{Message: strconv.Itoa(n)})
	}
	early.Close()
	late.Close()
	for sub, first := range map[*Subscription]int{early: 0, late: many / 2} {
		next := first
		for event := range sub.Events {
			if event.Message != strconv.Itoa(next) {
				t.Fatalf("got %s, want %d", event.Message, next)
			}
			next++
		}
		if next != many || sub.Lagged() {
			t.Errorf("got events up to %d of %d, lagged %v", next, many, sub.Lagged())
		}
	}
}

func TestHub_CutsOffAReaderThatFallsBehind(t *testing.T) {
	t.Parallel()
	var hub Hub
	slow, fast := hub.Subscribe(), hub.Subscribe()
	for range backlog + 1 {
		hub.Publish(Event{})
		<-fast.Events
	}
	n := 0
	for range slow.Events {
		n++
	}
	if n != backlog || !slow.Lagged() || fast.Lagged() {
		t.Errorf("the slow reader got %d events, lagged %v; the fast one lagged %v", n, slow.Lagged(), fast.Lagged())
	}
	hub.Publish(Event{})
	slow.Close()
	fast.Close()
	fast.Close()
}

// Those who stay get all, those who come and go get a part without gaps; of each
// publisher in its order.
func TestHub_IsSafeForManyAtOnce(t *testing.T) {
	t.Parallel()
	const many, each = 8, backlog / 8 // so that nobody lags who does not read
	var hub Hub
	var wg sync.WaitGroup
	var stayed []*Subscription
	for range many {
		stayed = append(stayed, hub.Subscribe())
	}
	for who := range many {
		wg.Go(func() {
			for n := range each {
				hub.Publish(Event{Kind: strconv.Itoa(who), Message: strconv.Itoa(n)})
			}
		})
		wg.Go(func() {
			for range 50 {
				sub := hub.Subscribe()
				select {
				case <-sub.Events:
				default:
				}
				sub.Close()
				received(t, sub)
			}
		})
	}
	wg.Wait()
	for _, sub := range stayed {
		sub.Close()
		if got := received(t, sub); got != many*each || sub.Lagged() {
			t.Errorf("one who stayed got %d events, want %d; lagged %v", got, many*each, sub.Lagged())
		}
	}
}

// received counts what is left in a closed subscription. Of each publisher it has
// to be one event after the other.
func received(t *testing.T, sub *Subscription) (count int) {
	next := map[string]int{}
	for e := range sub.Events {
		n, err := strconv.Atoi(e.Message)
		if want, seen := next[e.Kind]; err != nil || seen && n != want {
			t.Errorf("%q of publisher %s, want %d", e.Message, e.Kind, want)
		}
		next[e.Kind] = n + 1
		count++
	}
	return count
}
