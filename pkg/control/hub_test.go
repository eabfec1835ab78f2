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

func TestHub_IsSafeForManyAtOnce(t *testing.T) {
	t.Parallel()
	var hub Hub
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				hub.Publish(Event{})
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
			}
		})
	}
	wg.Wait()
}
