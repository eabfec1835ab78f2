package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"harness/pkg/contract"
	"harness/pkg/durable"
	"harness/pkg/ledger"
	"harness/pkg/plain"
	"harness/pkg/run"
	"harness/pkg/wire"
)

func newLedgerCmd(g *globals) *cobra.Command {
	return group("ledger", "Read, export and verify the signed evidence of contracts", "verdict, export, list, verify, keys or rotate",
		read(newLedgerVerdictCmd(g)), read(newLedgerExportCmd(g)), read(newLedgerListCmd(g)), read(newLedgerVerifyCmd(g)), read(newLedgerKeysCmd(g)), write(newLedgerRotateCmd(g), run.Orchestrator))
}

func newLedgerVerdictCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verdict SESSION",
		Short: "Print the signed verdict of a session, after a check of its whole chain",
		Args:  exactly(1, "one session"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := (&contract.Runner{Ledger: g.ledger()}).Look(args[0])
			if err != nil {
				return unknownSession(args[0], err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), a)
			}
			return printAnswer(cmd.OutOrStdout(), g.ledger(), a)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newLedgerExportCmd(g *globals) *cobra.Command {
	var asJSON bool
	var output string
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Print the evidence of a session as one JSON file that can be verified anywhere",
		Args:  exactly(1, "one session"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := (&contract.Runner{Ledger: g.ledger()}).Export(args[0])
			if err != nil {
				return unknownSession(args[0], err)
			}
			data, err := b.Encode()
			if err != nil {
				return err
			}
			if output != "" {
				return writeBundle(cmd, output, b, data, asJSON)
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		},
	}
	jsonFlag(cmd, &asJSON) // it is JSON in any case, but for what -o says
	cmd.Flags().StringVarP(&output, "output", "o", "", "write it to this file")
	return cmd
}

// exported is the answer of `harness ledger export -o FILE --json`.
type exported struct {
	File    string `json:"file"`
	Session string `json:"session"`
	SHA256  string `json:"sha256"`
}

// bundleMode is that of a bundle, before umask: it is made to be given away.
const bundleMode = 0o666

// writeBundle writes to a file in a directory that is there: another one would be
// a mistyped path. What was written is said on stderr: the file may be stdout.
func writeBundle(cmd *cobra.Command, file string, b *ledger.Bundle, data []byte, asJSON bool) error {
	dir := filepath.Dir(file)
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %q: there is no directory %q; make it first", file, dir)
	} else if err != nil {
		return fmt.Errorf("write %q: %w", file, err)
	} else if !info.IsDir() {
		return fmt.Errorf("write %q: %q is not a directory", file, dir)
	}
	if err := durable.WriteFile(file, data, bundleMode); err != nil {
		return err
	}
	if !asJSON {
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s: session %s, %d entries\n", plain.Text(file), b.Session, len(b.Entries))
		return nil
	}
	return printJSON(cmd.OutOrStdout(), exported{file, b.Session, ledger.SHA256(data)})
}

// ledgerLine is one session of `harness ledger list --json`.
type ledgerLine struct {
	Session        string    `json:"session"`
	Status         string    `json:"status"`
	Outcome        *string   `json:"outcome"`
	ContractSHA256 *string   `json:"contract_sha256"`
	HeadHash       *string   `json:"head_hash"`
	Entries        int       `json:"entries"`
	Error          *string   `json:"error"`
	UpdatedAt      time.Time `json:"updated_at"`
}

func newLedgerListCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, the one written last first",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			store := g.ledger()
			all, err := store.List()
			if err != nil {
				return err
			}
			lines := make([]ledgerLine, 0, len(all))
			for _, s := range all {
				lines = append(lines, describeSession(store, s))
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"sessions": lines})
			}
			if len(lines) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "no sessions; `harness help contracts` says how to make one")
			}
			var rows [][]string
			for _, l := range lines {
				what := or(l.Outcome, l.Status)
				if l.Error != nil {
					what = *l.Error
				}
				rows = append(rows, []string{l.Session, what, short(or(l.ContractSHA256, "-")), l.UpdatedAt.Format(time.DateTime)})
			}
			return table(cmd.OutOrStdout(), []string{"SESSION", "OUTCOME", "CONTRACT", "WRITTEN"}, rows)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func describeSession(store *ledger.Store, s ledger.Session) ledgerLine {
	l := ledgerLine{Session: s.ID, Status: "invalid", UpdatedAt: s.At}
	a, err := (&contract.Runner{Ledger: store}).Look(s.ID)
	if err != nil {
		text := err.Error()
		if _, ok := errors.AsType[*ledger.Fault](err); ok {
			text = string(wire.InvalidEvidence) + ": " + text
		}
		l.Error = &text
		return l
	}
	l.Status, l.HeadHash = a.Status, &a.HeadHash
	if a.Verdict != nil {
		l.Outcome = &a.Verdict.Outcome
	}
	if entries, err := store.Read(s.ID); err == nil {
		l.Entries = len(entries)
		if h, err := entries[0].Head(); err == nil {
			l.ContractSHA256 = &h.ContractSHA256
		}
	}
	return l
}

func newLedgerKeysCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Print the public keys of this machine's ledger, the one in use last",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ring, err := g.ledger().Ring()
			if err != nil {
				return err
			}
			if asJSON {
				if ring == nil {
					ring = ledger.Ring{}
				}
				return printJSON(cmd.OutOrStdout(), map[string]any{"public_keys": ring})
			}
			if len(ring) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "no keys; the first contract that is run makes one")
			}
			var rows [][]string
			for _, k := range ring {
				rows = append(rows, []string{k.Fingerprint, k.PublicKey, k.Since})
			}
			return table(cmd.OutOrStdout(), []string{"FINGERPRINT", "PUBLIC KEY", "SINCE"}, rows)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newLedgerRotateCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Replace the signing key; the old one vouches for the new, and its signatures stay valid",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := g.ledger().Rotate()
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "signing with %s from now on\n", k.Fingerprint)
			return nil
		},
	}
}
