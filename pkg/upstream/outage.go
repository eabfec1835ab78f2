package upstream

import (
	"fmt"
	"time"

	"harness/pkg/wire"
)

// outage is why calls to an upstream fail, as callers are told (LIF-6).
type outage struct {
	state   State
	retryAt time.Time // zero: not planned, or not known
	why     string
}

// err is the failure of one call to the upstream key at now.
func (o outage) err(key string, now time.Time) *wire.Error {
	message := fmt.Sprintf("upstream %s is %s", key, o.state)
	if o.why != "" {
		message += ": " + o.why
	}
	e := &wire.Error{Code: wire.UpstreamUnavailable, Message: message, Upstream: key, State: string(o.state)}
	// What starts is being tried at this moment.
	if !o.retryAt.IsZero() || o.state == Starting {
		ms := max(0, o.retryAt.Sub(now).Milliseconds())
		e.RetryIn = &ms
	}
	return e
}

// callError is a failure of one call that says nothing about the next.
func callError(code wire.Code, key string, state State, message string) *wire.Error {
	return &wire.Error{Code: code, Message: message, Upstream: key, State: string(state)}
}
