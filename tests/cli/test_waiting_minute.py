"""Off a terminal, the waiting line comes again every minute. In a file of its
own, for it takes that minute."""

import unittest

from support import CliTest


class EveryMinute(CliTest):
    def test_second_line(self):
        holder = self.hold("deploy")
        waiter = self.start("run", "deploy", "--", "true")
        waiter.err.wait_for('waiting for "deploy": 0s')
        waiter.err.wait_for('waiting for "deploy": 1m0[01]s', limit=120)
        self.assertEqual(waiter.err.text().count("\n"), 2)
        holder.signal(15)
        self.assertEqual(waiter.wait(), 0)


if __name__ == "__main__":
    unittest.main()
