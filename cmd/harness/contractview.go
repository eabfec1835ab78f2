package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"harness/pkg/contract"
	"harness/pkg/ledger"
	"harness/pkg/plain"
)

// printAnswer says what a session has come to, for eyes.
func printAnswer(w io.Writer, kept *ledger.Store, a contract.Answer) error {
	if a.Verdict == nil {
		_, err := fmt.Fprintf(w, "%s: %s\n", a.Session, a.Status)
		if err == nil && a.Status == contract.Interrupted {
			_, err = fmt.Fprintf(w, "go on with `harness contract run %s`\n", a.Session)
		}
		return err
	}
	var rows [][]string
	why := map[int]string{}
	for _, s := range a.Steps {
		why[s.Step] = s.Reason
		if s.Step == 0 {
			rows = append(rows, []string{"(work)", s.Outcome, or(s.Exit, "-"), short(or(s.Evidence, "-")), s.Reason})
		}
	}
	for i, c := range a.Verdict.Checks {
		rows = append(rows, []string{c.Name, c.Outcome, or(c.ExitCode, "-"), short(or(c.EvidenceSHA256, "-")), why[i+1]})
	}
	if err := table(w, []string{"CHECK", "OUTCOME", "EXIT", "EVIDENCE", "WHY"}, rows); err != nil {
		return err
	}
	for _, s := range a.Steps {
		printSaid(w, kept, a.Session, s)
	}
	_, err := fmt.Fprintf(w, "verdict   %s\nsession   %s\nsandbox   %s\ncontract  %s\nhead      %s\n",
		a.Verdict.Outcome, a.Session, a.Verdict.Sandbox, a.Verdict.ContractSHA256, a.HeadHash)
	return err
}

// How much is shown of what a step wrote that did not pass.
const (
	saidLines   = 5
	saidColumns = 200
)

// printSaid shows the end of what a step wrote that did not pass: on its standard
// error, or else on its output.
func printSaid(w io.Writer, kept *ledger.Store, session string, s contract.Ended) {
	if s.Outcome == contract.Pass {
		return
	}
	stdout, stderr, err := contract.Said(kept, session, s)
	if err != nil {
		fmt.Fprintf(w, "%s: %s\n", plain.Text(s.Name), plain.Text(err.Error()))
		return
	}
	stream, said := "stderr", strings.TrimSpace(string(stderr))
	if said == "" {
		stream, said = "stdout", strings.TrimSpace(string(stdout))
	}
	if said == "" {
		return
	}
	lines := strings.Split(said, "\n")
	fmt.Fprintf(w, "%s, the end of its %s:\n", plain.Text(s.Name), stream)
	for _, line := range lines[max(len(lines)-saidLines, 0):] {
		fmt.Fprintf(w, "  %s\n", firstLine(plain.Text(strings.TrimRight(line, "\r")), saidColumns))
	}
	fmt.Fprintf(w, "  all of it: %s\n", plain.Text(filepath.Join(kept.Dir(session), s.File)))
}

// short is enough of a digest to find it by.
func short(digest string) string {
	const enough = 12
	if len(digest) > enough {
		return digest[:enough]
	}
	return digest
}

// watchContract shows progress: on a terminal a line that changes while a step
// runs, elsewhere a line for each step that has ended, on stderr. done returns
// when all of it is shown.
func watchContract(cmd *cobra.Command, x *contract.Execution, quiet bool) (done func()) {
	if quiet {
		return func() {}
	}
	out, isFile := cmd.ErrOrStderr().(*os.File)
	v := &contractView{out: cmd.ErrOrStderr(), live: isFile && term.IsTerminal(int(out.Fd())), steps: map[string]time.Time{}}
	v.line("session %s", x.Session())
	x.Watch(v.take)
	over := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { v.tick(over) })
	return func() {
		close(over)
		shown.Wait()
	}
}

// contractView is what is on the screen of one session.
type contractView struct {
	out  io.Writer
	live bool

	mu    sync.Mutex
	last  contract.Progress
	steps map[string]time.Time // what runs, since when
}

func (v *contractView) take(p contract.Progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = p
	if p.Outcome == "" {
		v.steps[p.Step] = time.Now()
		return
	}
	began, known := v.steps[p.Step]
	delete(v.steps, p.Step)
	text := fmt.Sprintf("[%d/%d] %s: %s", p.Done, p.Total, p.Step, p.Outcome)
	if p.Reason != "" {
		text += " (" + p.Reason + ")"
	}
	if known {
		text += fmt.Sprintf(" %s", time.Since(began).Round(time.Millisecond))
	}
	v.line("%s", text)
}

// line writes a line that stays.
func (v *contractView) line(format string, args ...any) {
	text := plain.Text(fmt.Sprintf(format, args...))
	if v.live {
		text = "\r\x1b[K" + text
	}
	fmt.Fprintln(v.out, text)
}

// tick keeps the line up to date that changes.
func (v *contractView) tick(over <-chan struct{}) {
	if !v.live {
		return
	}
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-over:
			fmt.Fprint(v.out, "\r\x1b[K")
			return
		case <-every.C:
			v.draw()
		}
	}
}

func (v *contractView) draw() {
	v.mu.Lock()
	defer v.mu.Unlock()
	oldest, step := time.Time{}, ""
	for name, began := range v.steps {
		if step == "" || began.Before(oldest) {
			oldest, step = began, name
		}
	}
	if step == "" {
		return
	}
	more := ""
	if n := len(v.steps); n > 1 {
		more = fmt.Sprintf(" and %d more", n-1)
	}
	fmt.Fprintf(v.out, "\r\x1b[K[%d/%d] %s%s … %s", v.last.Done, v.last.Total, plain.Text(firstLine(step, 40)), more, time.Since(oldest).Round(100*time.Millisecond))
}
