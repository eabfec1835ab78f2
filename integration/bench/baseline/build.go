package baseline

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The roles, each the first argument of the program.
const (
	EchoServer  = "echo-server"
	FloorDaemon = "floor-daemon"
	FloorBridge = "floor-bridge"
	FloorGiver  = "floor-giver"
)

// roles is what the program can be.
func roles(name string) func(args []string) error {
	return map[string]func([]string) error{
		EchoServer:  runEcho,
		FloorDaemon: runFloorDaemon,
		FloorBridge: runFloorBridge,
		FloorGiver:  runFloorGiver,
	}[name]
}

// Build makes the program in dir and returns its path. It needs the go command
// and a working directory inside the module.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "baseline")
	cmd := exec.Command("go", "test", "-c", "-o", path, "harness/integration/bench/baseline")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // static, as harness is
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the baselines: %w\n%s", err, out)
	}
	return path, nil
}
