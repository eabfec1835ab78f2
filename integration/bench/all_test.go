package bench

import "slices"

// allParts is everything there is to measure, in the order of the table.
func allParts() []part {
	return slices.Concat(callParts(), memoryParts(), editParts(), reloadParts(), listParts(), startParts(), attachParts(), contractParts(), runParts())
}
