package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDelegate_TheTypeScriptSDK has the client of the official TypeScript SDK
// delegate contracts, over both framings. It needs what npm installed, which
// HARNESS_NPM_SERVERS says where to find; without it, Go's client alone does it.
func TestDelegate_TheTypeScriptSDK(t *testing.T) {
	t.Parallel()
	npm := os.Getenv("HARNESS_NPM_SERVERS")
	if npm == "" {
		t.Log("HARNESS_NPM_SERVERS is not set")
		return
	}
	script, err := filepath.Abs("testdata/delegate.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, framing := range []string{"lines", "headers"} {
		t.Run(framing, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			ctx, stop := context.WithTimeout(context.Background(), 2*patience)
			defer stop()
			cmd := h.command(ctx, "node", script, framing, filepath.Dir(npm), "harness", "serve-mcp", "--standalone")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want := `tools harness_contract_status harness_ledger_export harness_ledger_verdict harness_run_contract
pass pass F-pass-async pass
fail fail F-fail-async fail
error error F-error-async error
timeout timeout F-timeout-async timeout
cancel cancelled
killed interrupted
resumed pass xxy
refused unknown_tool
refused unknown_tool
refused unknown_tool
`
			if diff := cmp.Diff(strings.ReplaceAll(want, "F-", framing+"-"), string(out)); diff != "" {
				t.Error(diff)
			}
			h.must("ledger", "verify", framing+".json")
		})
	}
}
