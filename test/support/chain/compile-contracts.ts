import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Abi } from 'viem'
import { writeGeneratedFile } from '../../../scripts/docs/write-generated-docs.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

/** A compiled contract of the local chain. */
export interface ContractArtifact {
  readonly abi: Abi
  readonly bytecode: `0x${string}`
}

export type ContractArtifacts = Readonly<Record<'MockUSDC' | 'MockPermit2Proxy', ContractArtifact>>

interface SolcOutput {
  readonly errors?: readonly { severity: string; formattedMessage: string }[]
  readonly contracts: Readonly<
    Record<string, Readonly<Record<string, { abi: Abi; evm: { bytecode: { object: string } } }>>>
  >
}

const NAMES = ['MockUSDC', 'MockPermit2Proxy'] as const

/** Compiles the contracts of this folder; equal sources give equal bytes on every machine. */
export async function compileContracts(): Promise<ContractArtifacts> {
  const { default: solc } = await import('solc')
  const output = JSON.parse(solc.compile(JSON.stringify(solcInput()))) as SolcOutput
  const problems = (output.errors ?? []).filter(({ severity }) => severity !== 'info')
  if (problems.length > 0) {
    throw new Error(problems.map(({ formattedMessage }) => formattedMessage).join('\n'))
  }
  const artifact = (name: string): ContractArtifact => {
    const contract = output.contracts[`${name}.sol`]?.[name]
    if (contract === undefined) throw new Error(`${name} was not compiled`)
    return { abi: contract.abi, bytecode: `0x${contract.evm.bytecode.object}` }
  }
  const [usdc, proxy] = NAMES.map(artifact) as [ContractArtifact, ContractArtifact]
  return { MockUSDC: usdc, MockPermit2Proxy: proxy }
}

function solcInput(): object {
  const source = (name: string) =>
    readFileSync(join(REPOSITORY_ROOT, 'test/support/chain', `${name}.sol`), 'utf8')
  return {
    language: 'Solidity',
    sources: Object.fromEntries(NAMES.map((name) => [`${name}.sol`, { content: source(name) }])),
    settings: {
      evmVersion: 'paris', // the oldest version supported by the local and the real chains
      optimizer: { enabled: true, runs: 200 },
      // no source hash in the code: a comment must not change the bytes
      metadata: { bytecodeHash: 'none', appendCBOR: false },
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
    },
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeGeneratedFile(
    'test/support/chain/contract-artifacts.json',
    `${JSON.stringify(await compileContracts(), null, 2)}\n`,
  )
}
