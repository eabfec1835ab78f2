package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"harness/pkg/wire"
)

// demoPoll is how often the demo looks again for what it waits for.
const demoPoll = 5 * time.Millisecond

// pause lets d pass, or what is left of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// play shows one thing after the other and stops at the first that did not
// happen.
func (d *demo) play(ctx context.Context) error {
	fmt.Fprintf(d.out, "A daemon and two agents in %s. Each line: the time it took, what was done, what the agents saw.\n\n", d.home)
	for _, scene := range []func(context.Context) error{
		d.connect, d.add, d.swap, d.breakIt, d.prompts, d.crash, d.remove, d.restart,
	} {
		if err := cmp.Or(scene(ctx), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// table is the config with one upstream whose server calls itself version.
func (d *demo) table(version string) string {
	return fmt.Sprintf("[mcp.prompts]\npaths = [\"prompts\"]\n\n[mcp.demo]\ncmd = %q\nargs = [%q, %q]\nrestart_delay = \"100ms\"\n", d.exe, demoServer, version)
}

const demoEmpty = "[mcp.prompts]\npaths = [\"prompts\"]\n"

// connect starts a daemon with no servers and two agents.
func (d *demo) connect(ctx context.Context) error {
	begin, err := d.save("harness.toml", demoEmpty)
	if err != nil {
		return err
	}
	if err := d.startDaemon(); err != nil {
		return err
	}
	for _, name := range []string{"agent-1", "agent-2"} {
		a, err := startDemoAgent(name, d.exe, d.env)
		if err != nil {
			return err
		}
		d.agents = append(d.agents, a)
		if err := a.greet(ctx); err != nil {
			return err
		}
	}
	if err := d.listed(ctx, wire.Tools); err != nil {
		return err
	}
	d.say(time.Since(begin), "daemon started, two agents connected", "both: no tools of servers yet")
	return nil
}

func (d *demo) add(ctx context.Context) error {
	took, err := d.edit(ctx, wire.Tools, "harness.toml", d.table("v1"))
	if err != nil {
		return err
	}
	if err := d.listed(ctx, wire.Tools, "demo__crash", "demo__version", "demo__work"); err != nil {
		return err
	}
	text, err := d.agents[1].call(ctx, "demo__version", "{}")
	if err != nil {
		return err
	}
	d.say(took, "[mcp.demo] added and saved", "both: told, 3 tools; agent-2 calls one: "+text)
	return nil
}

// swap changes the server under constant calls, one of which is still at work.
func (d *demo) swap(ctx context.Context) error {
	stop := make(chan struct{})
	var calls int
	var failed error
	var busy sync.WaitGroup
	busy.Go(func() {
		for failed == nil {
			select {
			case <-stop:
				return
			default:
			}
			_, failed = d.agents[0].call(ctx, "demo__version", "{}")
			calls++
		}
	})
	slow := make(chan string, 1)
	var slowErr error
	busy.Go(func() {
		var text string
		text, slowErr = d.agents[1].call(ctx, "demo__work", `{"ms":1000}`)
		slow <- text
	})
	took, err := d.edit(ctx, wire.Tools, "harness.toml", d.table("v2"))
	if err == nil {
		_, err = d.agents[1].call(ctx, "demo__version", "{}")
	}
	old := <-slow
	close(stop)
	busy.Wait()
	if err = errors.Join(err, failed, slowErr); err != nil {
		return err
	}
	now, err := d.agents[0].call(ctx, "demo__version", "{}")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(old, "v1,") || !strings.HasPrefix(now, "v2,") {
		return fmt.Errorf("the swap mixed versions: the call under way was answered by %q, the next by %q", old, now)
	}
	d.say(took, "its args changed while calls run", fmt.Sprintf("both: told; %d calls, none lost; the slow one ended on %s; now %s", calls+2, old, now))
	return nil
}

// breakIt saves a file with a fault: nothing changes, and the fault has a line.
func (d *demo) breakIt(ctx context.Context) error {
	since := d.counts()
	begin, err := d.save("harness.toml", d.table("v2")+"restart_dely = \"1s\"\n")
	if err != nil {
		return err
	}
	fault, err := d.fault(ctx)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if _, err := d.agents[0].call(ctx, "demo__version", "{}"); err != nil {
		return err
	}
	if err := d.silent(since); err != nil {
		return err
	}
	d.say(took, "a misspelt key saved", "both: nothing, all keeps running; status: "+fault)
	if _, err := d.save("harness.toml", d.table("v2")); err != nil {
		return err
	}
	begin = time.Now()
	for {
		s, err := d.status(ctx)
		if err != nil {
			return err
		}
		if s.LastReload != nil && s.LastReload.OK {
			break
		}
		if time.Since(begin) > demoPatience {
			return errors.New("the corrected file was not taken")
		}
		pause(ctx, demoPoll)
	}
	if err := d.silent(since); err != nil {
		return err
	}
	d.say(time.Since(begin), "corrected", "both: nothing; the file is in force again")
	return nil
}

// fault waits until the daemon has refused the file, and returns where.
func (d *demo) fault(ctx context.Context) (string, error) {
	for deadline := time.Now().Add(demoPatience); time.Now().Before(deadline); {
		s, err := d.status(ctx)
		if err != nil {
			return "", err
		}
		if s.LastReload != nil && !s.LastReload.OK && len(s.LastReload.Errors) > 0 {
			return strings.TrimPrefix(faultText(s.LastReload.Errors[0]), d.home+string(os.PathSeparator)), nil
		}
		pause(ctx, demoPoll)
	}
	return "", errors.New("the broken file was not refused")
}

func (d *demo) prompts(ctx context.Context) error {
	const head = "---\ndescription: says hello\narguments:\n  - name: who\n    required: true\n---\n"
	took, err := d.edit(ctx, wire.Prompts, "prompts/hello.md", head+"Hello {{who}}.\n")
	if err != nil {
		return err
	}
	if err := d.listed(ctx, wire.Prompts, "hello"); err != nil {
		return err
	}
	d.say(took, "prompts/hello.md written", "both: told, prompt hello")
	took, err = d.edit(ctx, wire.Prompts, "prompts/hello.md", head+"Good morning {{who}}.\n")
	if err != nil {
		return err
	}
	raw, err := d.agents[0].request(ctx, "prompts/get", `{"name":"hello","arguments":{"who":"Ada"}}`)
	if err != nil {
		return err
	}
	if !strings.Contains(string(raw), "Good morning Ada.") {
		return fmt.Errorf("the prompt was not edited: %s", raw)
	}
	d.say(took, "its text edited", "both: told; agent-1 reads “Good morning Ada.”")
	return nil
}

// crash ends the server's process in a call and waits for the next that works.
func (d *demo) crash(ctx context.Context) error {
	since := d.counts()
	begin := time.Now()
	_, err := d.agents[0].call(ctx, "demo__crash", "{}")
	if err == nil {
		return errors.New("the crash did not happen")
	}
	told := err.Error()
	d.say(time.Since(begin), "the server crashes in a call", "agent-1: "+told)
	for {
		if _, err = d.agents[1].call(ctx, "demo__version", "{}"); err == nil {
			break
		}
		if ctx.Err() != nil || time.Since(begin) > demoPatience {
			return fmt.Errorf("the server did not come back: %w", err)
		}
		pause(ctx, demoPoll)
	}
	if err := d.silent(since); err != nil {
		return err
	}
	d.say(time.Since(begin), "restart_delay was 100ms", "agent-2: calls work again; the lists never changed")
	return nil
}

func (d *demo) remove(ctx context.Context) error {
	took, err := d.edit(ctx, wire.Tools, "harness.toml", demoEmpty)
	if err != nil {
		return err
	}
	if err := d.listed(ctx, wire.Tools); err != nil {
		return err
	}
	_, err = d.agents[0].call(ctx, "demo__version", "{}")
	switch {
	case err == nil:
		return errors.New("a removed server was called")
	case !strings.Contains(err.Error(), string(wire.UnknownNamespace)):
		return fmt.Errorf("call a removed server: %w", err)
	}
	d.say(took, "[mcp.demo] removed", "both: told, no tools of servers")
	return nil
}

// restart ends the daemon and starts another over a file that changed in
// between: the agents keep their sessions and learn of the difference.
func (d *demo) restart(ctx context.Context) error {
	if err := d.stopDaemon(); err != nil {
		return err
	}
	since := d.counts()
	if _, err := d.save("harness.toml", d.table("v3")); err != nil {
		return err
	}
	begin := time.Now()
	if err := d.startDaemon(); err != nil {
		return err
	}
	for i, a := range d.agents {
		if _, err := a.note(ctx, wire.Tools, since[i]); err != nil {
			return err
		}
		text, err := a.call(ctx, "demo__version", "{}")
		if err != nil {
			return err
		}
		if !strings.HasPrefix(text, "v3,") {
			return fmt.Errorf("%s reached %q after the restart", a.name, text)
		}
	}
	d.say(time.Since(begin), "daemon stopped, file edited, daemon started", "both: same session, told, and served by v3")
	return nil
}
