package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/daemon"
	"harness/pkg/ledger"
	"harness/pkg/wire"
)

// Who says that the key of a bundle is one to believe.
const (
	trustPinned = "pinned" // whoever gave --key
	trustOwn    = "own"    // this machine's ledger has it
	trustNone   = "none"   // nobody
)

// verification is the answer of `harness ledger verify --json`. What it says of
// the bundle is null where its chain does not hold.
type verification struct {
	OK          bool         `json:"ok"`
	Error       *verifyError `json:"error"`
	Session     *string      `json:"session"`
	Outcome     *string      `json:"outcome"` // null also until the session is done
	HeadHash    *string      `json:"head_hash"`
	Fingerprint *string      `json:"fingerprint"` // of the key that signed the last entry
	Trust       *string      `json:"trust"`
	entries     int
}

type verifyError struct {
	Code    string `json:"code"`
	Entry   *int   `json:"entry"`
	Message string `json:"message"`
}

func newLedgerVerifyCmd(g *globals) *cobra.Command {
	var asJSON bool
	var keys []string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check an exported bundle, offline",
		Long:  "verify checks every digest and signature of an exported bundle, and whose they are.\n--key pins whose signatures are accepted, by public key or fingerprint (`harness ledger\nkeys` prints them). Without it, those of this machine's own ledger are and no others: a\nbundle from elsewhere proves nothing without a key that was had in another way.",
		Args:  exactly(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			pin, trust, err := g.pin(keys)
			if err != nil {
				return err
			}
			data, err := daemon.ReadRegular(args[0])
			if err != nil {
				err = fmt.Errorf("read the bundle %q: %w", args[0], err)
				if asJSON {
					return printUnverified(cmd, err)
				}
				return err
			}
			v, err := verify(data, pin, trust)
			fault, failed := errors.AsType[*ledger.Fault](err)
			if err != nil && !failed {
				return err
			}
			if asJSON {
				return printVerification(cmd, v, fault)
			}
			if failed {
				return fmt.Errorf("%s does not hold: %w", args[0], fault)
			}
			printVerified(cmd, v)
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringArrayVar(&keys, "key", nil, "a public key or a fingerprint, or a file that holds one; may be given again")
	cmd.Flags().StringArrayVar(&keys, "fingerprint", nil, "the same as --key")
	return cmd
}

// verify checks a bundle, and that a key of it is in pin. The error is a
// [*ledger.Fault] where it does not hold.
func verify(data []byte, pin ledger.Pin, trust string) (verification, error) {
	b, err := ledger.Verify(data, nil)
	if err != nil {
		return verification{}, err
	}
	head, err := b.Entries[len(b.Entries)-1].Head()
	if err != nil {
		return verification{}, err
	}
	v := verification{Session: &b.Session, HeadHash: &b.HeadHash, Fingerprint: &head.Key, Trust: &trust, entries: len(b.Entries)}
	if b.Verdict != nil {
		v.Outcome = &b.Verdict.Outcome
	}
	if pin.Vouches(b) {
		return v, nil
	}
	v.Trust = control.OrNull(trustNone)
	if trust == trustPinned {
		return v, &ledger.Fault{Message: "none of its public keys is the pinned one: it was signed by somebody else"}
	}
	return v, &ledger.Fault{Message: fmt.Sprintf("its chain fits together, but it is signed by %s, which is not a key of this machine's ledger and which nobody vouched for; once you know whose it is, pass --key with it", head.Key)}
}

// pin is what was given, or the ring of this machine, and which of the two.
func (g *globals) pin(keys []string) (pin ledger.Pin, trust string, err error) {
	if len(keys) > 0 {
		for i, key := range keys {
			if text, err := os.ReadFile(key); err == nil {
				keys[i] = strings.TrimSpace(string(text))
			}
		}
		pin, err := ledger.NewPin(keys...)
		if err != nil {
			return nil, "", usagef("--key: %w", err)
		}
		return pin, trustPinned, nil
	}
	ring, err := g.ledger().Ring()
	if err != nil {
		return nil, "", err
	}
	for _, k := range ring {
		pin = append(pin, k.Fingerprint)
	}
	return pin, trustOwn, nil
}

func printVerification(cmd *cobra.Command, v verification, fault *ledger.Fault) error {
	v.OK = fault == nil
	if fault != nil {
		v.Error = &verifyError{Code: string(wire.InvalidEvidence), Message: fault.Message}
		if fault.Entry > 0 {
			v.Error.Entry = &fault.Entry
		}
	}
	if err := printJSON(cmd.OutOrStdout(), v); err != nil {
		return err
	}
	if fault != nil {
		return silentError{}
	}
	return nil
}

// printUnverified is the answer about what could not be read.
func printUnverified(cmd *cobra.Command, err error) error {
	v := verification{Error: &verifyError{Code: string(wire.OperationFailed), Message: err.Error()}}
	if err := printJSON(cmd.OutOrStdout(), v); err != nil {
		return err
	}
	return silentError{}
}

func printVerified(cmd *cobra.Command, v verification) {
	whose := "a pinned key"
	if *v.Trust == trustOwn {
		whose = "this machine's own key"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "session %s: %d entries hold; verdict: %s\nsigned by %s, %s\n", *v.Session, v.entries, or(v.Outcome, "not done yet"), *v.Fingerprint, whose)
}
