package control

import (
	"fmt"
	"strconv"
	"strings"
)

// The version of the control interface. An additive change moves the minor; a
// client of another major is refused (CLI-5).
const (
	apiMajor = 1
	apiMinor = 0
)

// Names of the headers that client and daemon exchange.
const (
	headerAPI   = "Harness-API"
	headerToken = "Harness-Token"
)

// upgradeMCP is the protocol that GET /v1/session upgrades to.
const upgradeMCP = "mcp"

// upgradeTTY is the protocol that GET /v1/attach upgrades to: frames.
const upgradeTTY = "harness-tty"

// APIVersion returns the version of the interface this program speaks, as
// major.minor.
func APIVersion() string { return fmt.Sprintf("%d.%d", apiMajor, apiMinor) }

// major reads the major of a "major.minor" version.
func major(version string) (int, error) {
	head, tail, found := strings.Cut(version, ".")
	n, err := strconv.Atoi(head)
	if _, minorErr := strconv.Atoi(tail); err != nil || !found || minorErr != nil || n < 0 {
		return 0, fmt.Errorf("version %q is not major.minor", version)
	}
	return n, nil
}

// checkVersion compares what a client said it speaks with what this daemon
// speaks. A client that says nothing (curl) is taken at its word for the path.
func checkVersion(client string) *Problem {
	if client == "" {
		return nil
	}
	n, err := major(client)
	if err == nil && n == apiMajor {
		return nil
	}
	return &Problem{
		Code:    CodeAPIVersion,
		Message: fmt.Sprintf("this client speaks control API %s, the daemon %s", client, APIVersion()),
		Hint:    "use the harness binary that the daemon was started from, or restart the daemon with this one",
	}
}

// checkServer is the client's side of the same question.
func checkServer(server string) error {
	if server == "" {
		return &Problem{
			Code:    CodeAPIVersion,
			Message: "what answers on the socket is not a harness daemon, or one older than control API " + APIVersion(),
			Hint:    "check --socket, or restart the daemon with this binary",
		}
	}
	n, err := major(server)
	if err == nil && n == apiMajor {
		return nil
	}
	return &Problem{
		Code:    CodeAPIVersion,
		Message: fmt.Sprintf("this client speaks control API %s, the daemon %s", APIVersion(), server),
		Hint:    "restart the daemon with this binary",
	}
}
