import { decodeErrorResult, parseAbi, type Hex } from 'viem'
import { findRpcError, revertReasonFromError } from './evm-client.ts'

/** Decodes why calls reverted. */

/** Errors of many contracts (OpenZeppelin 5, EIP-6093); any other is shown by its selector. */
const COMMON_ERRORS_ABI = parseAbi([
  'error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed)',
  'error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed)',
  'error ERC20InvalidSender(address sender)',
  'error ERC20InvalidReceiver(address receiver)',
  'error ERC20InvalidApprover(address approver)',
  'error ERC20InvalidSpender(address spender)',
  'error ERC721NonexistentToken(uint256 tokenId)',
  'error ERC721IncorrectOwner(address sender, uint256 tokenId, address owner)',
  'error ERC721InsufficientApproval(address operator, uint256 tokenId)',
  'error ERC1155InsufficientBalance(address sender, uint256 balance, uint256 needed, uint256 tokenId)',
  'error OwnableUnauthorizedAccount(address account)',
  'error OwnableInvalidOwner(address owner)',
  'error AccessControlUnauthorizedAccount(address account, bytes32 neededRole)',
  'error ReentrancyGuardReentrantCall()',
  'error EnforcedPause()',
  'error ExpectedPause()',
  'error InvalidInitialization()',
  'error NotInitializing()',
  'error AddressEmptyCode(address target)',
  'error FailedCall()',
  'error SafeERC20FailedOperation(address token)',
])

/** The reason in the data of a revert; null if there is none. */
export function decodeRevertReason(data: string | null): string | null {
  if (data === null || !/^0x([0-9a-f]{2}){4,}$/i.test(data)) return null
  try {
    const { errorName, args } = decodeErrorResult({ abi: COMMON_ERRORS_ABI, data: data as Hex })
    if ((errorName as string) === 'Error') return String(args?.[0])
    const shown = (args ?? []).map(String).join(', ')
    return (errorName as string) === 'Panic' ? `Panic(${shown})` : `${errorName}(${shown})`
  } catch {
    return data.length === 10 ? data : `${data.slice(0, 10)} (an error of the contract's own)`
  }
}

/** Why a call stopped, from the node's error; null if the node did not run it. */
export function evmCallHaltReason(error: unknown): string | null {
  const reason = revertReasonFromError(error)
  if (reason === null) return null
  return (/^0x/.test(reason) ? decodeRevertReason(reason) : null) ?? reason
}

/** Why a node rejected a call before running it: too few funds, too low a fee. */
export function fundsRejectionReason(error: unknown): string | null {
  const answer = findRpcError(error)
  if (answer === null) return null
  return /insufficient funds|lack of funds|exceeds (the )?balance/i.test(answer.details)
    ? answer.details
    : null
}
