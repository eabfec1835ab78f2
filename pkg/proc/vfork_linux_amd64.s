#include "textflag.h"

#define SYS_clone 56

// func cloneVM(flags uintptr, pidfd *int32) (pid uintptr, errno syscall.Errno)
//
// The child runs on from here on the same stack and writes over the address to
// return to. The parent keeps it in a register, which the kernel preserves.
TEXT ·cloneVM(SB),NOSPLIT|NOFRAME,$0-32
	MOVQ	flags+0(FP), DI
	MOVQ	pidfd+8(FP), DX
	XORL	SI, SI
	XORL	R10, R10
	XORL	R8, R8
	MOVL	$SYS_clone, AX
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	MOVQ	$0, errno+24(FP)
	MOVQ	AX, pid+16(FP)
	CMPQ	AX, $-4095
	JLO	done
	NEGQ	AX
	MOVQ	AX, errno+24(FP)
done:
	RET
