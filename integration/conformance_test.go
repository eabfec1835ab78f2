package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/integration/unprefix"
)

// check is one of the checks of a scenario, as the suite writes it down.
type check struct{ ID, Name, Status, ErrorMessage string }

// TestConformance_OfAnUpstreamSeenThroughHarness has the official suite judge
// the reference server behind a daemon. It speaks HTTP alone, so a gateway
// stands before `harness mcp`, and it asks for fixed names, so a filter takes
// the key off. All there is passes, but what is the gateway's own.
//
// The suite is in the directory that HARNESS_CONFORMANCE names, which .ci/run
// installs.
func TestConformance_OfAnUpstreamSeenThroughHarness(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HARNESS_CONFORMANCE")
	if dir == "" {
		return // as it is with the servers of npm
	}
	path, err := goEverything()
	if err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	h.env["PATH"] = filepath.Join(dir, "node/bin") + ":" + h.env["PATH"]
	d := h.run(h.table("ge", path, nil))
	d.awaitState("ge", "running")
	url := h.gateway(filepath.Join(dir, ".bin/supergateway"))

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	results := h.path("results")
	suite := h.command(ctx, filepath.Join(dir, ".bin/conformance"), "server", "--url", url, "--requirements", "2025-11-25", "--timeout", "120000", "-o", results)
	out, _ := suite.CombinedOutput() // it exits 1 where one fails, and one does
	failed, passed := []string{}, 0
	for scenario, checks := range checksIn(t, results) {
		for _, c := range checks {
			switch c.Status {
			case "SUCCESS":
				passed++
			case "FAILURE":
				failed = append(failed, c.ID)
				t.Logf("%s: %s: %s", scenario, c.ID, c.ErrorMessage)
			}
		}
	}
	// The gateway takes a request for any host; nothing else fails.
	if diff := cmp.Diff([]string{"localhost-host-rebinding-rejected"}, failed); diff != "" || passed != 80 {
		t.Errorf("%d checks passed, not 80; failed: %s\n%s", passed, diff, tail(string(out), 80))
	}
}

// gateway serves `harness mcp` over HTTP, with the names of the upstream "ge"
// bare, and returns where.
func (h *home) gateway(program string) (url string) {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	filter := h.path(unprefix.Name)
	if err := os.Symlink(self, filter); err != nil {
		h.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	cmd := h.command(context.Background(), program, "--stdio", fmt.Sprintf("%s ge__ %s/harness mcp", filter, bin(h.t)),
		"--outputTransport", "streamableHttp", "--stateful", "--port", port, "--logLevel", "none")
	var log buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { defer close(exited); cmd.Wait() }()
	h.t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(patience):
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-exited
		}
	})
	eventually(h.t, "the gateway listens", func() bool {
		select {
		case <-exited:
			h.t.Fatalf("the gateway exited: %v\n%s", cmd.ProcessState, log.String())
		default:
		}
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://127.0.0.1:" + port + "/mcp"
}

// checksIn reads what the suite found, by scenario.
func checksIn(t *testing.T, dir string) map[string][]check {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]check{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []check
		if err := json.Unmarshal(text, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(filepath.Dir(file))] = checks
	}
	return all
}
