/** The operator's command that gives an agent promotional credits, for messages that name it. */
export const grantCliCommand = (agentId: string): string =>
  `gas grant ${agentId} <usdc> --note <why>`
