-- The same topic in SQL: values parsed as JSON, one table kept in complete mode.
CREATE STREAMING SOURCE orders (customer string NOT NULL, amount double)
USING kafka OPTIONS (topics = 'orders', create = TRUE);

CREATE STREAMING TABLE spent
INTO console
MODE complete
UNBOUNDED STATE
AS SELECT customer, count(*) AS orders, sum(amount) AS amount
   FROM STREAM(orders)
   GROUP BY customer
   ORDER BY customer;
