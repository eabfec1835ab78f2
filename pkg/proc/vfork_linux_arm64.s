#include "textflag.h"

#define SYS_clone 220

// func cloneVM(flags uintptr, pidfd *int32) (pid uintptr, errno syscall.Errno)
//
// The address to return to is in a register here, which the kernel preserves.
TEXT ·cloneVM(SB),NOSPLIT|NOFRAME,$0-32
	MOVD	flags+0(FP), R0
	MOVD	$0, R1
	MOVD	pidfd+8(FP), R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$SYS_clone, R8
	SVC
	MOVD	ZR, errno+24(FP)
	MOVD	R0, pid+16(FP)
	CMN	$4095, R0
	BCC	done
	NEG	R0, R0
	MOVD	R0, errno+24(FP)
done:
	RET
