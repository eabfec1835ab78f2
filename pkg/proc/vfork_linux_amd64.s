#include "go_asm.h"
#include "textflag.h"

#define SYS_write 1
#define SYS_getpid 39
#define SYS_clone 56
#define SYS_exit_group 231
#define ESRCH 3

// func vfork(b *burden) (pid uintptr, errno syscall.Errno)
//
// The child is on the same stack and does not touch it.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-24
	MOVQ	b+0(FP), R13
	MOVQ	burden_flags(R13), DI
	XORL	SI, SI
	LEAQ	burden_pidfd(R13), DX
	XORL	R10, R10
	XORL	R8, R8
	MOVL	$SYS_clone, AX
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	MOVQ	$0, errno+16(FP)
	MOVQ	AX, pid+8(FP)
	CMPQ	AX, $-4095
	JCS	parent
	NEGQ	AX
	MOVQ	AX, errno+16(FP)
parent:
	RET

child:
	MOVL	$SYS_getpid, AX
	SYSCALL
	MOVL	AX, burden_pid(R13)
	MOVQ	burden_calls(R13), BX
	MOVQ	(burden_calls+8)(R13), R15	// how many are left
next:
	MOVQ	call_rules(BX), R12
	MOVQ	call_args(BX), DI
	TESTQ	$const_ofPrior, R12
	JEQ	call
	MOVQ	R14, DI
call:
	MOVQ	(call_args+8)(BX), SI
	MOVQ	(call_args+16)(BX), DX
	MOVQ	(call_args+24)(BX), R10
	MOVQ	(call_args+32)(BX), R8
	MOVQ	(call_args+40)(BX), R9
	MOVQ	call_trap(BX), AX
	SYSCALL
	MOVQ	AX, R14
	TESTQ	$const_careless, R12
	JNE	done
	CMPQ	AX, $-4095
	JCC	failed
	TESTQ	$const_checked, R12
	JEQ	done
	CMPQ	AX, call_want(BX)
	JEQ	done
	MOVQ	$-ESRCH, AX	// nobody is there that it could be the child of
failed:
	NEGQ	AX
	MOVL	AX, (burden_report+4)(R13)
	MOVQ	call_stage(BX), AX
	MOVL	AX, burden_report(R13)
	MOVQ	(burden_fault+8)(R13), DI
	LEAQ	burden_report(R13), SI
	MOVL	$8, DX
	MOVL	$SYS_write, AX
	SYSCALL
	JMP	exit
done:
	ADDQ	$call__size, BX
	DECQ	R15
	JNE	next
exit:
	MOVL	$1, DI
	MOVL	$SYS_exit_group, AX
	SYSCALL
	JMP	exit
