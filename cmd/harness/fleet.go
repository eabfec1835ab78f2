package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"harness/pkg/contract"
	"harness/pkg/control"
	"harness/pkg/facade"
	"harness/pkg/run"
)

// fleet is the daemon, for the contracts that this process runs. It is dialled
// when it is needed: it may come and go.
type fleet struct{ g *globals }

// fleetPatience bounds what a contract waits for a daemon that answers late.
const fleetPatience = 10 * time.Second

// Announce implements [contract.Fleet]. The daemon takes down what becomes of the
// session by itself when this process is gone.
func (f fleet) Announce(session string) (over func()) {
	begun := make(chan ranAnswer, 1)
	ended := make(chan struct{})
	ctx, letGo := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		defer close(begun)
		c, err := f.g.client(ctx)
		if err != nil {
			return // no daemon, nothing to be shown in
		}
		defer c.Close()
		var a ranAnswer
		if c.Operate(ctx, facade.ContractBegin, map[string]string{"session": session}, &a) != nil {
			return
		}
		begun <- a
		_ = c.Operate(ctx, facade.ContractHold, map[string]string{"run": a.Run.ID}, nil)
	}()
	return func() {
		defer func() {
			letGo()
			<-ended
		}()
		ctx, stop := context.WithTimeout(ctx, fleetPatience)
		defer stop()
		var a ranAnswer
		select {
		case a = <-begun:
		case <-ctx.Done():
		}
		if c, err := f.g.client(ctx); a.Run.ID != "" && err == nil {
			defer c.Close()
			_ = c.Operate(ctx, facade.ContractEnd, map[string]string{"run": a.Run.ID}, nil)
		}
	}
}

// Work implements [contract.Fleet].
func (f fleet) Work(ctx context.Context, w contract.HarnessWork) (contract.HarnessEnd, error) {
	c, err := f.g.client(ctx)
	if errors.Is(err, control.ErrUnreachable) {
		return contract.HarnessEnd{}, contract.ErrNoFleet
	}
	if err != nil {
		return contract.HarnessEnd{}, err
	}
	defer c.Close()
	arguments := map[string]any{
		"name": w.Harness, "prompt": w.Prompt, "contract": w.Session, "timeout": w.Timeout.String(), "idempotency_key": w.Key,
	}
	var a ranAnswer
	if err := c.Operate(context.WithoutCancel(ctx), facade.RunLaunch, arguments, &a); err != nil {
		return contract.HarnessEnd{}, err
	}
	of := map[string]string{"run": a.Run.ID}
	if err := c.Operate(ctx, "wait", of, &a); err == nil {
		return harnessEnd(a.Run), nil
	} else if ctx.Err() == nil {
		return contract.HarnessEnd{}, fmt.Errorf("run %s: %w", a.Run.ID, err)
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer stop()
	err = c.Operate(last, "cancel", of, &a)
	if err != nil { // it ended by itself meanwhile
		err = c.Operate(last, "run", of, &a)
	}
	return harnessEnd(a.Run), err
}

func harnessEnd(i run.Info) contract.HarnessEnd {
	return contract.HarnessEnd{
		Run: i.ID, State: i.State, ExitCode: i.ExitCode, Signal: or(i.Signal, ""), Reason: or(i.Reason, ""), Receipt: or(i.FinalReceiptSHA256, ""),
	}
}
