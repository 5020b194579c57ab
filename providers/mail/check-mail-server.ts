/** Connects to a mail server, greets it and logs in; sends nothing. Rejects with the server's reason. */
export async function checkMailServer(url: string): Promise<void> {
  const { createTransport } = await import('nodemailer')
  const times = { connectionTimeout: 4_000, greetingTimeout: 4_000, socketTimeout: 6_000 }
  const transport = createTransport({ url, ...times })
  try {
    await transport.verify()
  } finally {
    transport.close()
  }
}
